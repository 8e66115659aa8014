package pod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// devices has the IDs of the devices of a pod: those that its ResourceClaims hold, and those that the
// kubelet gave to it. The networks get them one by one, in the order of the annotation.
type devices struct {
	ask    Devices
	pod    api.Pod
	claims *claimedVFs // nil: none
	left   map[string][]string
	had    map[string]int
}

// devicesOf returns the devices of a pod, of which no network has one yet.
func (h *Handler) devicesOf(p api.Pod, claims *claimedVFs) devices {
	return devices{ask: h.Devices, pod: p, claims: claims, left: map[string][]string{}, had: map[string]int{}}
}

// leftOf returns the IDs of those devices of a resource that no network has yet: first those of claims, and
// if these are fewer than n, those that the kubelet gave to the pod.
func (d devices) leftOf(ctx context.Context, resource string, n int) (ids []string, err error) {
	for _, r := range d.claims.ofResource(resource) {
		ids = append(ids, r.PCI.String())
	}
	if len(ids) >= n || d.isOneRequest() {
		return ids, nil
	}
	if _, known := d.left[resource]; !known {
		all, err := d.ask(ctx, d.pod.Namespace, d.pod.Name, resource)
		if err != nil && !errors.Is(err, vf.ErrNotFound) {
			return nil, fmt.Errorf("which %s the pod has: %w", resource, err)
		}
		d.left[resource], d.had[resource] = all, len(all)
	}
	return append(ids, d.left[resource]...), nil
}

// isOneRequest reports whether the devices are those of one request of a claim, for its own network.
func (d devices) isOneRequest() bool { return d.claims != nil && d.claims.group }

// take removes devices from those that no network has.
func (d devices) take(resource string, ids []string) {
	d.claims.take(ids)
	if _, known := d.left[resource]; !known {
		return
	}
	d.left[resource] = slices.DeleteFunc(slices.Clone(d.left[resource]), func(id string) bool { return slices.Contains(ids, id) })
}

// nextID takes a device of a resource for a network that plugins of other projects serve. It returns
// "" if there is none: the node itself may have the resource without any device, as nodes that are
// marked with their bridges do. Multus leaves it to the plugins too.
func (d devices) nextID(ctx context.Context, resource string) (string, error) {
	left, err := d.leftOf(ctx, resource, 1)
	if err != nil || len(left) == 0 {
		return "", err
	}
	d.take(resource, left[:1])
	return left[0], nil
}

// nextVFs takes n VFs of a resource. A network of one VF gets the next one. A bond gets VFs of
// different PFs, as far as the kubelet gave the pod such; the attach decides whether they will do.
func (d devices) nextVFs(ctx context.Context, resource string, n int, findPF func(vf.PCIAddr) vf.PFID) ([]vf.PCIAddr, error) {
	ids, err := d.leftOf(ctx, resource, n)
	if err != nil {
		return nil, err
	}
	missing := n - len(ids)
	switch {
	case missing > 0 && d.isOneRequest():
		return nil, fmt.Errorf("%w: the network needs %d VFs, and the request has %d left for it: set its count to a multiple of %d", vf.ErrInvalid, n, len(ids), n)
	case missing > 0:
		return nil, fmt.Errorf("a device of resource %s: %w: the kubelet gave pod %s %d of them: request %d in the pod's resources (the webhook does so for new pods)",
			resource, vf.ErrNotFound, d.pod, d.had[resource], d.had[resource]+missing)
	}
	var left []vf.PCIAddr
	written := map[vf.PCIAddr]string{}
	for _, id := range ids {
		a, err := vf.ParsePCIAddr(id)
		if err != nil {
			return nil, fmt.Errorf("pod %s has %s %s: %w: not a VF of Culvert: is another device plugin serving that resource?", d.pod, resource, excerpt.Quote(id), vf.ErrInvalid)
		}
		left, written[a] = append(left, a), id
	}
	if n > 1 {
		left = spreadOverPFs(left, findPF)
	}
	left = left[:n:n]
	taken := make([]string, 0, n)
	for _, a := range left {
		taken = append(taken, written[a])
	}
	d.take(resource, taken)
	return left, nil
}

// takeFor takes the devices of a network's resource: as many VFs as a network of Culvert's needs,
// and one at most for other networks.
func (d devices) takeFor(ctx context.Context, l netconf.List, resource string, count int, findPF func(vf.PCIAddr) vf.PFID) (ids []string, err error) {
	if !l.HasOwn() {
		id, err := d.nextID(ctx, resource)
		if err != nil || id == "" {
			return nil, err
		}
		return []string{id}, nil
	}
	vfs, err := d.nextVFs(ctx, resource, count, findPF)
	for _, a := range vfs {
		ids = append(ids, a.String())
	}
	return ids, err
}

// spreadOverPFs sorts devices so that those at the front are on different PFs: in rounds, each of
// which has one device of each PF, beginning with the PF that has most.
func spreadOverPFs(devices []vf.PCIAddr, findPF func(vf.PCIAddr) vf.PFID) []vf.PCIAddr {
	count, round := map[vf.PFID]int{}, map[vf.PCIAddr]int{}
	for _, a := range devices {
		pf := findPF(a)
		round[a] = count[pf]
		count[pf]++
	}
	return slices.SortedStableFunc(slices.Values(devices), func(a, b vf.PCIAddr) int {
		return cmp.Or(cmp.Compare(round[a], round[b]), cmp.Compare(count[findPF(b)], count[findPF(a)]))
	})
}

// findPF returns the PF of a VF; the zero value if it is not known.
func (h *Handler) findPF(a vf.PCIAddr) vf.PFID {
	for _, pf := range h.Hardware.PFs() {
		for _, v := range pf.VFs {
			if v.PCI == a {
				return pf.ID
			}
		}
	}
	return vf.PFID{}
}

// checkDevice refuses the deviceID of a pod's annotation unless the kubelet gave that VF to the
// pod, or a claim holds it for the pod: no text may give a pod another pod's VF (I9).
func (d devices) checkDevice(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	device, err := vf.ParsePCIAddr(id)
	if err != nil {
		return fmt.Errorf("deviceID: %w: %w", vf.ErrInvalid, err)
	}
	if d.claims != nil && slices.ContainsFunc(d.claims.all, func(r journal.Record) bool { return r.PCI == device }) {
		return nil
	}
	all, err := d.ask(ctx, d.pod.Namespace, d.pod.Name, "")
	if err != nil && !errors.Is(err, vf.ErrNotFound) {
		return fmt.Errorf("which devices the pod has: %w", err)
	}
	if !slices.ContainsFunc(all, func(id string) bool { a, err := vf.ParsePCIAddr(id); return err == nil && a == device }) {
		return fmt.Errorf("deviceID %s: %w: the kubelet did not give that device to pod %s: request the resource of its pool, and leave deviceID out of the annotation",
			device, vf.ErrInvalid, d.pod)
	}
	return nil
}
