package endpoints

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/service"
)

// Backends has the input from which k8s.io/endpointslice makes a Service's EndpointSlices, and
// the facts that it cannot know.
type Backends struct {
	// Service and Pods are copies: the pods' status has their addresses on the network, and
	// the Service has the labels of Culvert's slices.
	Service *corev1.Service
	Pods    []*corev1.Pod
	// Missing are pods that would be endpoints and have no address, in the order of their names.
	Missing []Missing
	// VFIO are the names of pods whose VF is bound to vfio-pci.
	VFIO []string
}

// Missing is a pod that would be an endpoint and has no address on the network.
type Missing struct {
	Pod, Reason string
	// Awaited: the address may come with the node's next NodeState. Since is when the pod
	// became ready.
	Awaited bool
	Since   time.Time
}

// Build finds the addresses of a Service's pods on a network. state returns the NodeState of
// a node, or nil.
func Build(svc *corev1.Service, pods []*corev1.Pod, network service.Network, state func(node string) *v1alpha1.NodeState) Backends {
	b := Backends{Service: asHeadless(svc, network)}
	for _, pod := range slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) }) {
		if pod.Spec.NodeName == "" {
			continue
		}
		found := Find(pod, network, state(pod.Spec.NodeName))
		if found.VFIO {
			b.VFIO = append(b.VFIO, pod.Name)
		}
		if found.Missing == "" && !slices.ContainsFunc(found.Addresses, func(a netip.Addr) bool { return hasFamily(svc, a) }) {
			found.Missing = fmt.Sprintf("its address %s is of a family that the Service has not: add the family to spec.ipFamilies", found.Addresses[0])
		}
		if found.Missing == "" {
			b.Pods = append(b.Pods, withAddresses(pod, found.Addresses))
			continue
		}
		if ready, since := readySince(pod); isWanted(svc, pod, ready) {
			b.Missing = append(b.Missing, Missing{pod.Name, found.Missing, found.Awaited, since})
		}
	}
	return b
}

// asHeadless copies a Service for k8s.io/endpointslice. A headless one's slices have the
// label service.kubernetes.io/headless, by which kube-proxy leaves them alone.
func asHeadless(svc *corev1.Service, network service.Network) *corev1.Service {
	out := *svc
	out.Labels = maps.Clone(svc.Labels)
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	out.Labels[service.NetworkLabel] = network.Label()
	out.Spec.ClusterIP = corev1.ClusterIPNone
	return &out
}

// withAddresses copies a pod for k8s.io/endpointslice.
func withAddresses(pod *corev1.Pod, addresses []netip.Addr) *corev1.Pod {
	out := *pod
	out.Status.PodIPs = nil
	for _, a := range addresses {
		out.Status.PodIPs = append(out.Status.PodIPs, corev1.PodIP{IP: a.String()})
	}
	out.Status.PodIP = addresses[0].String()
	return &out
}

func hasFamily(svc *corev1.Service, a netip.Addr) bool {
	family := corev1.IPv6Protocol
	if a.Is4() {
		family = corev1.IPv4Protocol
	}
	return len(svc.Spec.IPFamilies) == 0 || slices.Contains(svc.Spec.IPFamilies, family)
}

// isWanted reports whether a pod would be an endpoint that takes connections.
func isWanted(svc *corev1.Service, pod *corev1.Pod, ready bool) bool {
	ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	return !ended && pod.DeletionTimestamp == nil && (ready || svc.Spec.PublishNotReadyAddresses)
}

func readySince(pod *corev1.Pod) (ready bool, since time.Time) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	return false, time.Time{}
}
