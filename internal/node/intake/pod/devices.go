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
	"github.com/culvert-net/culvert/internal/vf"
)

// devices has the IDs of the devices that the kubelet gave to a pod. The networks get them one by one,
// in the order of the annotation.
type devices struct {
	ask  Devices
	pod  api.Pod
	left map[string][]string
	had  map[string]int
}

// devicesOf returns the devices of a pod, of which no network has one yet.
func (h *Handler) devicesOf(p api.Pod) devices {
	return devices{ask: h.Devices, pod: p, left: map[string][]string{}, had: map[string]int{}}
}

// leftOf returns the IDs of those devices of a resource that no network has yet.
func (d devices) leftOf(ctx context.Context, resource string) ([]string, error) {
	if _, known := d.left[resource]; !known {
		all, err := d.ask(ctx, d.pod.Namespace, d.pod.Name, resource)
		if err != nil && !errors.Is(err, vf.ErrNotFound) {
			return nil, fmt.Errorf("which %s the pod has: %w", resource, err)
		}
		d.left[resource], d.had[resource] = all, len(all)
	}
	return d.left[resource], nil
}

// nextID takes a device of a resource for a network that plugins of other projects serve. It returns
// "" if there is none: the node itself may have the resource without any device, as nodes that are
// marked with their bridges do. Multus leaves it to the plugins too.
func (d devices) nextID(ctx context.Context, resource string) (string, error) {
	left, err := d.leftOf(ctx, resource)
	if err != nil || len(left) == 0 {
		return "", err
	}
	d.left[resource] = left[1:]
	return left[0], nil
}

// nextVFs takes n VFs of a resource. A network of one VF gets the next one. A bond gets VFs of
// different PFs, as far as the kubelet gave the pod such; the attach decides whether they will do.
func (d devices) nextVFs(ctx context.Context, resource string, n int, findPF func(vf.PCIAddr) vf.PFID) ([]vf.PCIAddr, error) {
	ids, err := d.leftOf(ctx, resource)
	if err != nil {
		return nil, err
	}
	if missing := n - len(ids); missing > 0 {
		return nil, fmt.Errorf("a device of resource %s: %w: the kubelet gave pod %s %d of them: request %d in the pod's resources (the webhook does so for new pods)",
			resource, vf.ErrNotFound, d.pod, d.had[resource], d.had[resource]+missing)
	}
	var left []vf.PCIAddr
	for _, id := range ids {
		a, err := vf.ParsePCIAddr(id)
		if err != nil {
			return nil, fmt.Errorf("pod %s has %s %s: %w: not a VF of Culvert: is another device plugin serving that resource?", d.pod, resource, excerpt.Quote(id), vf.ErrInvalid)
		}
		left = append(left, a)
	}
	if n > 1 {
		left = spreadOverPFs(left, findPF)
	}
	d.left[resource] = nil
	for _, a := range left[n:] {
		d.left[resource] = append(d.left[resource], a.String())
	}
	return left[:n:n], nil
}

// takeDevices takes the devices of a network's resource: as many VFs as a network of Culvert's needs,
// and one at most for other networks.
func (h *Handler) takeDevices(ctx context.Context, l netconf.List, resource string, count int, given devices) (ids []string, err error) {
	if !l.HasOwn() {
		id, err := given.nextID(ctx, resource)
		if err != nil || id == "" {
			return nil, err
		}
		return []string{id}, nil
	}
	vfs, err := given.nextVFs(ctx, resource, count, h.findPF)
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
// pod: no text may give a pod another pod's VF (I9).
func (d devices) checkDevice(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	device, err := vf.ParsePCIAddr(id)
	if err != nil {
		return fmt.Errorf("deviceID: %w: %w", vf.ErrInvalid, err)
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
