package endpoints

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/network/service"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// Attachment has the known facts about a pod on a network.
type Attachment struct {
	// Addresses are the addresses in the network-status that the pod's node confirms.
	Addresses []netip.Addr
	// VFIO: the VF is bound to vfio-pci, so the node's kernel is not in its path.
	VFIO bool
	// Missing is the reason why there is no address.
	Missing string
	// Awaited: the next NodeState of the pod's node may have the address.
	Awaited bool
}

// statusElement is the part of network-status that is read (Network Plumbing Working Group,
// "Network Custom Resource Definition De-facto Standard" 1.3, section 5).
type statusElement struct {
	Name      string   `json:"name"`
	Interface string   `json:"interface"`
	IPs       []string `json:"ips"`
}

// maxStatus is the most bytes of a network-status that are read. The API server accepts at
// most 256 KiB of annotations in an object.
const maxStatus = 256 << 10

// Find returns a pod's addresses on a network (I9, TestI9ForeignAddressIsNotPublished). The
// pod's owner can edit its network-status, so an address counts only where the pod's node
// confirms it, on an attached VF of that pod, interface and network (confirmedVFs). state is nil
// where the node has no NodeState.
func Find(pod *corev1.Pod, network service.Network, state *v1alpha1.NodeState) Attachment {
	elements, err := readStatus(pod.Annotations[netannotation.Status])
	if err != nil {
		return Attachment{Missing: fmt.Sprintf("annotation %s: %v", netannotation.Status, err)}
	}
	i := slices.IndexFunc(elements, func(e statusElement) bool { return e.Name == network.String() })
	switch {
	case i < 0 && asks(pod, network):
		return Attachment{Missing: fmt.Sprintf("its annotation %s does not have network %s", netannotation.Status, network), Awaited: true}
	case i < 0:
		return Attachment{Missing: fmt.Sprintf("it does not ask for network %s: add the network to its annotation %s", network, netannotation.Networks)}
	case state == nil:
		return Attachment{Missing: fmt.Sprintf("node %s has no NodeState: look whether culvertd runs there", pod.Spec.NodeName), Awaited: true}
	}
	return confirm(pod, elements[i], state)
}

// heldVF is an attached VF of a pod.
type heldVF struct {
	pool      string
	addresses []string
}

// isOfNetwork reports whether a confirmed VF can be of an element's network. confirmed is empty
// where Multus made the sandbox, so that culvertd does not know the network, and where culvertd or
// the CRD is of an earlier version. The interface and the address decide then: a refusal would take
// such pods out of their Services. Tenants cannot write an empty name: they write no NodeState and
// no Confirmation. docs/threat-model.md has the gap.
func isOfNetwork(confirmed string, e statusElement) bool {
	return confirmed == "" || confirmed == e.Name
}

// confirmedVFs returns the attached VFs that a pod's node confirms for an element of its
// network-status: those of its interface and network (isOfNetwork). It uses the later of two
// reports: the node's NodeState, and the pod's annotation netannotation.Confirmed. culvertd alone
// can add the annotation to a pod that is there. A copy in a new pod has another UID. A report from
// before the NodeState does not count any more.
func confirmedVFs(pod *corev1.Pod, e statusElement, state *v1alpha1.NodeState) (out []heldVF) {
	c, err := netannotation.ParseConfirmation(pod.Annotations[netannotation.Confirmed])
	if o := state.Status.Observed; err == nil && o != nil && c.Pod != "" && c.Pod == string(pod.UID) && !c.At.Before(o.Time) {
		for _, v := range c.VFs {
			if v.Interface == e.Interface && isOfNetwork(v.Network, e) {
				out = append(out, heldVF{v.Pool, v.Addresses})
			}
		}
		return out
	}
	for _, v := range state.Status.VFs {
		o := v.Owner
		if o == nil || v.Phase != string(vf.PhaseAttached) || o.Kind != vf.OwnerPod || o.Interface != e.Interface || !isOfNetwork(o.Network, e) {
			continue
		}
		if o.Name == pod.Namespace+"/"+pod.Name && (o.PodUID == "" || o.PodUID == string(pod.UID)) {
			out = append(out, heldVF{v.Pool, v.Addresses})
		}
	}
	return out
}

// confirm compares an element of a pod's network-status with what its node confirms.
func confirm(pod *corev1.Pod, e statusElement, state *v1alpha1.NodeState) Attachment {
	held := map[netip.Addr]bool{}
	out := Attachment{Awaited: true}
	found, refused := false, ""
	for _, v := range confirmedVFs(pod, e, state) {
		found = true
		out.VFIO = out.VFIO || isVFIO(state, v.pool)
		for _, text := range v.addresses {
			if p, err := netip.ParsePrefix(text); err == nil {
				held[p.Addr().Unmap()] = true
			}
		}
	}
	for _, text := range e.IPs {
		a, err := netip.ParseAddr(text)
		a = a.Unmap()
		switch {
		case err != nil || !held[a] || slices.Contains(out.Addresses, a):
		case isSpecial(a):
			refused = a.String()
		default:
			out.Addresses = append(out.Addresses, a)
		}
	}
	switch {
	case len(out.Addresses) > 0:
		out.Awaited = false
	case refused != "":
		out.Awaited = false
		out.Missing = fmt.Sprintf("Kubernetes refuses its address %s in an EndpointSlice: give the network addresses that are not link-local, loopback or multicast", refused)
	case !found:
		out.Missing = fmt.Sprintf("the NodeState of node %s does not have its interface %s on network %s yet", state.Name, excerpt.Quote(e.Interface), e.Name)
	case len(held) == 0:
		out.Missing = "its VF has no address: give the network an ipam"
	default:
		out.Missing = fmt.Sprintf("node %s does not confirm the addresses of its annotation %s", state.Name, netannotation.Status)
	}
	return out
}

// isSpecial reports whether the API server refuses an EndpointSlice with this address
// (ValidateEndpointIP, pkg/apis/core/validation of Kubernetes), or pods cannot connect to it.
func isSpecial(a netip.Addr) bool {
	return a.IsUnspecified() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast()
}

// isVFIO reports whether the VFs of a pool are bound to vfio-pci.
func isVFIO(state *v1alpha1.NodeState, pool string) bool {
	return slices.ContainsFunc(state.Status.Pools, func(p v1alpha1.PoolState) bool { return p.Name == pool && p.DeviceType == desired.VFIO })
}

func readStatus(text string) ([]statusElement, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxStatus {
		return nil, fmt.Errorf("%w: it has %d bytes; want at most %d", vf.ErrInvalid, len(text), maxStatus)
	}
	var out []statusElement
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, fmt.Errorf("%w: %w", vf.ErrInvalid, err)
	}
	return out, nil
}
