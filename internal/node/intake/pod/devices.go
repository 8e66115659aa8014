package pod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// devices has the devices that the kubelet gave to a pod. The networks get them one by one, in
// the order of the annotation.
type devices struct {
	ask  Devices
	pod  api.Pod
	left map[string][]vf.PCIAddr
	had  map[string]int
}

// nextDevices takes n devices of a resource. A network of one VF gets the next one. A bond gets
// devices of different PFs, as far as the kubelet gave the pod such; the attach decides whether
// they will do.
func (d devices) nextDevices(ctx context.Context, resource string, n int, findPF func(vf.PCIAddr) vf.PFID) ([]vf.PCIAddr, error) {
	if _, known := d.left[resource]; !known {
		all, err := d.ask(ctx, d.pod.Namespace, d.pod.Name, resource)
		if err != nil && !errors.Is(err, vf.ErrNotFound) {
			return nil, fmt.Errorf("which %s the pod has: %w", resource, err)
		}
		d.left[resource], d.had[resource] = all, len(all)
	}
	left := d.left[resource]
	if missing := n - len(left); missing > 0 {
		return nil, fmt.Errorf("a device of resource %s: %w: the kubelet gave pod %s %d of them: request %d in the pod's resources (the webhook does so for new pods)",
			resource, vf.ErrNotFound, d.pod, d.had[resource], d.had[resource]+missing)
	}
	if n > 1 {
		left = spreadOverPFs(left, findPF)
	}
	d.left[resource] = left[n:]
	return left[:n:n], nil
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
	if !slices.Contains(all, device) {
		return fmt.Errorf("deviceID %s: %w: the kubelet did not give that device to pod %s: request the resource of its pool, and leave deviceID out of the annotation",
			device, vf.ErrInvalid, d.pod)
	}
	return nil
}
