package inventory_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/inventory"
	"github.com/culvert-net/culvert/internal/vf"
)

// clock is a clock that stands still until it is set.
type clock struct {
	mu   sync.Mutex // guards past
	past time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Date(2026, 11, 26, 18, 0, 0, 0, time.UTC).Add(c.past)
}

func (c *clock) set(past time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.past = past
}

// blind is a kernel that cannot read the links of PFs while unread is true.
type blind struct {
	*fake.Kernel
	unread bool
}

func (k *blind) PFs(ctx context.Context) ([]vf.PF, error) {
	pfs, err := k.Kernel.PFs(ctx)
	for i := range pfs {
		if k.unread {
			pfs[i].Err, pfs[i].MTU, pfs[i].Up, pfs[i].Carrier, pfs[i].CarrierLosses = "its driver hangs", 0, false, false, 0
		}
	}
	return pfs, err
}

// A link is flapping from its fifth loss of carrier within a minute on, until it has kept its
// carrier for a minute. Losses count even if no listing saw the link without carrier. For a new
// netdevice, the kernel counts the losses from 0 again.
func TestFlapping(t *testing.T) {
	var c clock
	k := &blind{Kernel: fake.New(fake.IGB, 2)}
	i := inventory.New(k, c.now)
	pf := vf.PCIAddr{Bus: 1}
	lose := func(times int) func() {
		return func() {
			for range times {
				k.Cable(pf, false)
				k.Cable(pf, true)
			}
		}
	}
	do := func(s step.Step) {
		if err := k.Do(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	up := func() { do(step.SetPFUp{PF: pf}) }
	for _, s := range []struct {
		name string
		at   int // seconds
		do   func()
		want bool
	}{
		{"up", 0, up, false},
		{"four losses", 0, lose(4), false},
		{"a fifth loss, a minute later", 60, lose(1), false},
		{"five within a minute", 70, lose(4), true},
		{"another one", 100, lose(1), true},
		{"no cable", 100, func() { k.Cable(pf, false) }, true},
		{"almost steady", 159, func() {}, true},
		{"unread", 159, func() { k.unread = true }, true},
		{"steady, without a cable, unread", 160, func() {}, false},
		{"read again", 160, func() { k.unread = false }, false},
		{"a cable", 161, func() { k.Cable(pf, true) }, false},
		{"losses from before do not count", 162, lose(4), false},
		{"the driver is bound anew", 163, func() {
			if err := errors.Join(k.RemovePF(pf), k.AddPF(pf, pf)); err != nil {
				t.Fatal(err)
			}
			up()
		}, false},
		{"a fifth loss of the same wire", 164, lose(1), true},
		{"another number of VFs", 200, func() { do(step.SetNumVFs{PF: pf, N: 3}) }, true},
		{"steady, although the driver has reset the port", 224, func() {}, false},
		{"losses before another MTU is seen", 230, lose(4), false},
		{"another MTU", 239, func() { do(step.SetPFMTU{PF: pf, MTU: 9000}); lose(4)() }, false},
		{"one more, not long after", 248, lose(1), false},
		{"four more", 249, lose(4), false},
		{"five, long after", 250, lose(5), true},
	} {
		c.set(time.Duration(s.at) * time.Second)
		s.do()
		pfs, err := i.Refresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := pfs[0].Flapping; got != s.want || i.PFs()[0].Flapping != s.want {
			t.Errorf("%s, at %d s: flapping %t, want %t", s.name, s.at, got, s.want)
		}
		if pfs[1].Flapping {
			t.Errorf("%s: the other PF is flapping", s.name)
		}
	}
}

// A PF is not flapping because Culvert changes its MTU or its number of VFs, although the driver
// resets the port each time.
func TestOwnWorkIsNoFlapping(t *testing.T) {
	var c clock
	k := fake.New(fake.IGB, 1)
	i := inventory.New(k, c.now)
	pf := vf.PCIAddr{Bus: 1}
	for _, s := range []step.Step{
		step.SetPFUp{PF: pf}, step.SetNumVFs{PF: pf, N: 7}, step.SetPFMTU{PF: pf, MTU: 9000},
		step.SetNumVFs{PF: pf}, step.SetNumVFs{PF: pf, N: 4}, step.SetPFMTU{PF: pf, MTU: 1500},
	} {
		if err := k.Do(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if pfs, err := i.Refresh(t.Context()); err != nil || pfs[0].Flapping {
			t.Fatalf("after %s: %v, losses %d", s, err, pfs[0].CarrierLosses)
		}
	}
	if n := i.PFs()[0].CarrierLosses; n != 5 {
		t.Errorf("%d losses, want 5: the fake no longer resets the port", n)
	}
}

// Follow lists the hardware when a link stops flapping, although the kernel emits no event then.
func TestFollowListsTheSteadyLink(t *testing.T) {
	var c clock
	k := fake.New(fake.IGB, 1)
	i := inventory.New(k, c.now)
	pf := vf.PCIAddr{Bus: 1}
	refresh := func() {
		if _, err := i.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.Do(t.Context(), step.SetPFUp{PF: pf}); err != nil {
		t.Fatal(err)
	}
	refresh()
	for range vf.FlapLosses {
		k.Cable(pf, false)
		k.Cable(pf, true)
	}
	refresh()
	if !i.PFs()[0].Flapping {
		t.Fatal("it is not flapping")
	}
	c.set(vf.FlapPeriod)
	changed := i.Changed()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.Follow(ctx, make(chan struct{}), time.Millisecond, func(err error) { t.Error(err) })
	}()
	select {
	case <-changed:
	case <-time.After(5 * time.Minute):
		t.Fatal("the inventory was not listed again")
	}
	if i.PFs()[0].Flapping {
		t.Error("it is still flapping")
	}
	cancel()
	<-ended
}
