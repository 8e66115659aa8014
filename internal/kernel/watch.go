package kernel

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/kernel/uevent"
)

// Watch wakes whenever a link of the host's netns changed or a PCI device, netdevice or RDMA
// device came, went or changed its driver. Wakes that the caller has not received yet merge into
// one. Watch does not report earlier changes, so read the state once after it returns. It closes
// the channel when ctx ends.
func (k *Kernel) Watch(ctx context.Context) (<-chan struct{}, error) {
	links, err := rtnl.Watch()
	if err != nil {
		return nil, err
	}
	devices, err := uevent.Listen()
	if err != nil {
		_ = links.Close()
		return nil, err
	}
	wake := change.NewWake()
	g, both := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer links.Close()
		for {
			if err := links.Wait(both); err != nil {
				return err
			}
			wake.Notify()
		}
	})
	g.Go(func() error {
		defer devices.Close()
		for {
			e, err := devices.Next(both)
			if err != nil && !errors.Is(err, uevent.ErrLost) {
				return err
			}
			if err != nil || e.Subsystem == "pci" || e.Subsystem == "net" || e.Subsystem == rdmaVerbs {
				wake.Notify()
			}
		}
	})
	// No caller waits for this goroutine: it ends with ctx, and then closes the channel.
	go func() {
		if err := g.Wait(); ctx.Err() == nil {
			k.log.Error("watching devices stopped", "err", err)
		}
		close(wake)
	}()
	return wake, nil
}
