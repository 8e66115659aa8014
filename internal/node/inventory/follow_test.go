package inventory_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/node/inventory"
	"github.com/culvert-net/culvert/internal/vf"
)

// counting counts the listings.
type counting struct {
	*fake.Kernel
	listings atomic.Int32
	hold     chan struct{} // the first listing waits until this channel is closed
}

func (k *counting) PFs(ctx context.Context) ([]vf.PF, error) {
	pfs, err := k.Kernel.PFs(ctx)
	if k.listings.Add(1) == 1 && k.hold != nil {
		<-k.hold
	}
	return pfs, err
}

// Follow lists the hardware soon after a cable is pulled, and lists it once for a burst of events.
func TestFollow(t *testing.T) {
	k := &counting{Kernel: fake.New(fake.IGB, 1)}
	i := inventory.New(k, nil)
	if _, err := i.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	wake, err := k.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// A busy machine may stand still in the burst, for less than this.
		i.Follow(ctx, wake, 3*time.Second, func(err error) { t.Error(err) })
	}()
	changed := i.Changed()
	for range 20 {
		k.Cable(vf.PCIAddr{Bus: 1}, false)
	}
	select {
	case <-changed:
	case <-time.After(5 * time.Minute):
		t.Fatal("nobody looked")
	}
	if n := k.listings.Load(); n != 2 || i.PFs()[0].Carrier {
		t.Errorf("%d listings, carrier %t", n-1, i.PFs()[0].Carrier)
	}
	cancel()
	<-ended
}

// A listing that was begun earlier and took longer does not replace a newer one.
func TestRefreshKeepsTheNewest(t *testing.T) {
	k := &counting{Kernel: fake.New(fake.IGB, 1), hold: make(chan struct{})}
	i := inventory.New(k, nil)
	slow := make(chan error)
	go func() {
		_, err := i.Refresh(t.Context())
		slow <- err
	}()
	for k.listings.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := k.RemovePF(vf.PCIAddr{Bus: 1}); err != nil {
		t.Fatal(err)
	}
	if pfs, err := i.Refresh(t.Context()); err != nil || len(pfs) != 0 {
		t.Errorf("%d PFs, %v", len(pfs), err)
	}
	close(k.hold)
	if err := <-slow; err != nil || len(i.PFs()) != 0 {
		t.Errorf("%v: the PF that has gone is back", err)
	}
}
