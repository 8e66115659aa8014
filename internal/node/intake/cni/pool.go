package cni

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// cluster is kube.Client. The errors are vf.ErrNotFound and vf.ErrNotReady.
type cluster interface {
	// Pod returns a pod of this node.
	Pod(ctx context.Context, namespace, name, uid string) (api.Pod, error)
	// Network returns a network attachment definition.
	Network(ctx context.Context, namespace, name string) (api.NetworkDefinition, error)
	// PodEvent reports an event of a pod. It returns at once.
	PodEvent(p api.Pod, kind, reason, text string)
}

// pools is membership.Member: the AddressPools that persons declare.
type pools interface {
	// Section fills in the addresses of the section of a network in a namespace, and returns
	// the ID of their pool.
	Section(c ipam.Config, namespace string) (ipam.Config, string, error)
}

// choosePool sets the pool from which the addresses of a request come: the pool of the network
// attachment definition, the pool of another definition that it shares, the AddressPool that it
// names, or the pool of its network_name of whereabouts. A network of a file, or of a host without
// Kubernetes, keeps the pool of its CNI name.
func (h *Handler) choosePool(ctx context.Context, call Call, c *config.Config, req *attach.Request) error {
	if c.IPAM.IsZero() {
		return nil
	}
	var d api.NetworkDefinition
	if h.Cluster != nil {
		var err error
		if d, err = h.findDefinition(ctx, call, *c); err != nil && !c.IPAM.IsForAll() {
			return err
		}
	}
	req.NetworkNamespace = d.Namespace
	shares := c.IPAM.PoolOf
	switch {
	case c.IPAM.Pool != "":
		req.AddressPool = c.IPAM.Pool
	case c.IPAM.AddressPool != "":
		var err error
		if c.IPAM, req.AddressPool, err = h.declaredSection(c.IPAM, d.Namespace); err != nil {
			return fmt.Errorf("network %s: %w", cmp.Or(strings.Trim(d.Namespace+"/"+d.Name, "/"), c.Name), err)
		}
		if req.KeepAddress, err = h.keepTime(ctx, call, c.IPAM); err != nil {
			return err
		}
	case shares == "" && call.Claim != "":
		return fmt.Errorf("claim %s: ipam: %w: a claim has no range of its own: take addresses of an AddressPool (addressPool) or of a network (poolOf)", call.Claim, vf.ErrInvalid)
	case d.Name == "" && shares == "":
		return nil
	case d.Name == "" && call.Claim == "":
		return fmt.Errorf("network %s: ipam.poolOf %s: %w: only the network of a NetworkAttachmentDefinition can share a pool, where culvertd is connected to the cluster: give this one its own range",
			c.Name, shares, vf.ErrInvalid)
	case shares == "":
		req.AddressPool = d.Namespace + "/" + d.Name
	default:
		var err error
		if c.IPAM, err = h.sharedSection(ctx, d.Namespace, shares); err != nil {
			return fmt.Errorf("network %s/%s: ipam.poolOf %s: %w", d.Namespace, d.Name, shares, err)
		}
		req.AddressPool = shares
	}
	if err := fillRequested(*c, call.args, req); err != nil {
		return err
	}
	return checkFixed(*c, *req)
}

// declaredSection returns the section of a network of a namespace that names an AddressPool.
func (h *Handler) declaredSection(c ipam.Config, namespace string) (ipam.Config, string, error) {
	if h.Pools == nil {
		return c, "", fmt.Errorf("ipam.addressPool %s: %w: culvertd is not connected to a cluster, which has the AddressPools: give the network its own range", c.AddressPool, vf.ErrInvalid)
	}
	return h.Pools.Section(c, namespace)
}

// keepTime returns for how long the addresses of a request are kept for the name of its pod after
// the pod has ended: the time in the pod's annotation, up to the limit of the AddressPool.
func (h *Handler) keepTime(ctx context.Context, call Call, c ipam.Config) (time.Duration, error) {
	if call.args.Pod == "" || h.Cluster == nil {
		return 0, nil
	}
	pod, err := h.podOf(ctx, call)
	text := pod.Annotations[netannotation.KeepAddress]
	if err != nil || text == "" {
		return 0, err
	}
	keep, err := time.ParseDuration(text)
	if err != nil || keep < 0 {
		return 0, fmt.Errorf("pod %s: annotation %s %s: %w: want a time such as 24h", pod, netannotation.KeepAddress, excerpt.Quote(text), vf.ErrInvalid)
	}
	if keep > c.KeepAtMost {
		h.Cluster.PodEvent(pod, journal.Warning, reasons.AddressKeptShorter, fmt.Sprintf("AddressPool %s keeps the pod's address for %s after it has ended, and not for %s: raise keepAddress of the pool", c.AddressPool, c.KeepAtMost, keep))
	}
	return min(keep, c.KeepAtMost), nil
}

// sharedSection returns the ipam section of the network that owns a pool, if its author lets
// networks of a namespace share it. To another namespace every refusal reads the same, so that it
// does not reveal which networks exist.
func (h *Handler) sharedSection(ctx context.Context, namespace, pool string) (ipam.Config, error) {
	ownerNamespace, name, _ := strings.Cut(pool, "/")
	c, err := h.ownerSection(ctx, ownerNamespace, name)
	isForeign := namespace != ownerNamespace
	if isForeign && (errors.Is(err, vf.ErrNotFound) || errors.Is(err, vf.ErrInvalid) || err == nil && !slices.Contains(c.SharedWith, namespace)) {
		return ipam.Config{}, fmt.Errorf("%w: that network does not share its addresses with namespace %s: add the namespace to its ipam.sharedWith", vf.ErrInvalid, namespace)
	}
	return c, err
}

// ownerSection returns the ipam section of a network that owns its pool.
func (h *Handler) ownerSection(ctx context.Context, namespace, name string) (ipam.Config, error) {
	d, err := h.Cluster.Network(ctx, namespace, name)
	if err != nil {
		return ipam.Config{}, err
	}
	configs, err := h.Definitions.Read(d).Own()
	if err != nil {
		return ipam.Config{}, err
	}
	for _, c := range configs {
		if !c.IPAM.IsZero() && c.IPAM.PoolOf == "" && c.IPAM.AddressPool == "" {
			return c.IPAM, nil
		}
	}
	return ipam.Config{}, fmt.Errorf("%w: that network has no addresses of its own: name the network that has the range", vf.ErrInvalid)
}

// findDefinition returns the network attachment definition to which a request belongs; the zero
// value stands for a file on the node.
func (h *Handler) findDefinition(ctx context.Context, call Call, c config.Config) (api.NetworkDefinition, error) {
	switch {
	case call.Claim != "": // the network is in the claim's namespace, and no definition has its addresses
		namespace, _, _ := strings.Cut(call.Claim, "/")
		return api.NetworkDefinition{Namespace: namespace}, nil
	case call.Definition == "":
		return h.findAnnotated(ctx, call, c)
	}
	namespace, name, _ := strings.Cut(call.Definition, "/")
	d, err := h.Cluster.Network(ctx, namespace, name)
	if err != nil || strings.TrimSpace(d.Config) == "" {
		return api.NetworkDefinition{}, err
	}
	return d, nil
}

// findAnnotated finds the definition of a request of Multus, which names only the pod and the
// interface. It returns the definition, among those that the pod's annotations name, that has the
// request's configuration. If the annotations leave the choice open, the request is refused, and
// the kubelet tries again: a wrong pool would give an address twice.
func (h *Handler) findAnnotated(ctx context.Context, call Call, c config.Config) (api.NetworkDefinition, error) {
	if call.args.Pod == "" {
		return api.NetworkDefinition{}, nil
	}
	pod, err := h.podOf(ctx, call)
	if err != nil {
		return api.NetworkDefinition{}, err
	}
	elements, err := elementsOf(pod)
	if err != nil {
		return api.NetworkDefinition{}, err
	}
	named := false
	matches := map[string]api.NetworkDefinition{}
	for _, e := range elements {
		is := e.Interface == call.IfName
		named = named || is
		d, err := h.Cluster.Network(ctx, e.Namespace, e.Name)
		switch {
		case err != nil && is:
			return d, err
		case is && strings.TrimSpace(d.Config) == "":
			return api.NetworkDefinition{}, nil
		case err != nil:
		case is && e.isFixed && !h.hasSection(d, c):
			return api.NetworkDefinition{}, fmt.Errorf("network %s (%s) of pod %s: %w: NetworkAttachmentDefinition %s/%s has been changed since Multus read it; the kubelet tries again",
				c.Name, call.IfName, pod, vf.ErrNotReady, e.Namespace, e.Name)
		case !h.hasSection(d, c):
		case is:
			return d, nil
		default:
			matches[e.Namespace+"/"+e.Name] = d
		}
	}
	switch {
	case len(matches) == 1:
		for _, d := range matches {
			return d, nil
		}
	case len(matches) == 0 && !named:
		return api.NetworkDefinition{}, nil
	}
	return api.NetworkDefinition{}, fmt.Errorf("network %s (%s) of pod %s: %w: its annotation does not say which NetworkAttachmentDefinition that is: give each of its networks an interface name, e.g. %s@vf1",
		c.Name, call.IfName, pod, vf.ErrNotReady, c.Name)
}

// podNetwork is a network that a pod's annotations ask for.
type podNetwork struct {
	netannotation.Element
	// isFixed is set if the annotation, or its kind, fixes the interface name. Multus derives the
	// other names from the position of the network, and may count in another way.
	isFixed bool
}

// elementsOf returns the networks that a pod's annotations ask for, with the names that
// Multus gives their interfaces.
func elementsOf(pod api.Pod) (out []podNetwork, err error) {
	elements, err := netannotation.Parse(pod.Annotations[netannotation.Networks], pod.Namespace)
	if err != nil {
		return nil, err
	}
	for i, e := range elements {
		isFixed := e.Interface != ""
		e.Interface = cmp.Or(e.Interface, fmt.Sprintf("net%d", i+1))
		out = append(out, podNetwork{e, isFixed})
	}
	defaults, err := netannotation.ParseDefault(pod.Annotations[netannotation.DefaultNetwork])
	for _, e := range defaults {
		e.Interface = "eth0"
		out = append(out, podNetwork{e, true})
	}
	return out, err
}

// hasSection reports whether a definition has a network of c's name and addresses. Warnings do not
// count: Multus writes the section anew, so keys come in another order and values in another form.
func (h *Handler) hasSection(d api.NetworkDefinition, c config.Config) bool {
	configs, err := h.Definitions.Read(d).Own()
	c.IPAM.Warnings = nil
	return err == nil && slices.ContainsFunc(configs, func(o config.Config) bool {
		if section, err := o.Whereabouts(); err == nil && c.IPAM.Pool != "" {
			o.IPAM = section
		}
		o.IPAM.Warnings = nil
		return o.Name == c.Name && reflect.DeepEqual(o.IPAM, c.IPAM)
	})
}
