package pod

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/vf"
)

// devices are those that the kubelet gave to a pod, handed out one by one in the
// order of the annotation.
type devices struct {
	ask  Devices
	pod  api.Pod
	left map[string][]vf.PCIAddr
	had  map[string]int
}

func (d devices) next(ctx context.Context, resource string) (vf.PCIAddr, error) {
	if _, known := d.left[resource]; !known {
		all, err := d.ask(ctx, d.pod.Namespace, d.pod.Name, resource)
		if err != nil && !errors.Is(err, vf.ErrNotFound) {
			return vf.PCIAddr{}, fmt.Errorf("which %s the pod has: %w", resource, err)
		}
		d.left[resource], d.had[resource] = all, len(all)
	}
	left := d.left[resource]
	if len(left) == 0 {
		return vf.PCIAddr{}, fmt.Errorf("a device of resource %s: %w: the kubelet gave pod %s %d of them: request %d in the pod's resources (the webhook does so for new pods)",
			resource, vf.ErrNotFound, d.pod, d.had[resource], d.had[resource]+1)
	}
	d.left[resource] = left[1:]
	return left[0], nil
}

// check refuses the deviceID of a pod's annotation unless the kubelet gave that VF to the
// pod: a text gives nobody another pod's VF (I9).
func (d devices) check(ctx context.Context, id string) error {
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
