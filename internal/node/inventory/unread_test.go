package inventory_test

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/node/inventory"
	"github.com/culvert-net/culvert/internal/vf"
)

// partial changes the PFs that a listing returns.
type partial struct {
	*fake.Kernel
	change func(*vf.PF)
}

func (k *partial) PFs(ctx context.Context) ([]vf.PF, error) {
	pfs, err := k.Kernel.PFs(ctx)
	if k.change != nil {
		k.change(&pfs[0])
	}
	return pfs, err
}

// I7: a PF that cannot be read, in part or at all, keeps its identity and the properties that
// selectors compare. It keeps its addresses if nothing was read. Its VFs, which were read without
// the identity, are left out: they would look like the VFs of another PF, with other settings.
func TestI7UnreadPFKeepsItsIdentity(t *testing.T) {
	address := []netip.Prefix{netip.MustParsePrefix("10.0.0.5/24")}
	k := &partial{Kernel: fake.New(fake.IGB, 1), change: func(pf *vf.PF) { pf.Addrs = address }}
	i := inventory.New(k, nil)
	if _, err := i.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	was := i.PFs()[0]
	for what, change := range map[string]func(*vf.PF){
		"nothing was read": func(pf *vf.PF) { *pf = vf.PF{PCI: pf.PCI, Err: "no answer within 5s"} },
		"its netdevice was not": func(pf *vf.PF) {
			pf.Err, pf.ID, pf.Name, pf.MAC, pf.Addrs = "no netdevice", vf.PFID{}, "", vf.MAC{}, nil
			for index := range 2 {
				pf.VFs = append(pf.VFs, vf.State{ID: vf.ID{Index: index}})
			}
		},
	} {
		k.change = func(pf *vf.PF) { pf.Addrs = address }
		if _, err := i.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		k.change = change
		if _, err := i.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		pf, kept := i.PFs()[0], 0
		if what == "nothing was read" {
			kept = len(address)
		}
		if diff := cmp.Diff([]any{was.ID, was.Name, was.MAC, was.Vendor, was.Driver, kept, 0}, []any{pf.ID, pf.Name, pf.MAC, pf.Vendor, pf.Driver, len(pf.Addrs), len(pf.VFs)}); diff != "" || pf.Err == "" {
			t.Errorf("%s: Err %q, -was +is\n%s", what, pf.Err, diff)
		}
	}
}

// A PF that could not be read is listed again soon, without an event of the kernel.
func TestUnreadPFIsListedAgain(t *testing.T) {
	var broken atomic.Bool
	k := &partial{Kernel: fake.New(fake.IGB, 1), change: func(pf *vf.PF) {
		if broken.Load() {
			*pf = vf.PF{PCI: pf.PCI, Err: "no answer within 5s"}
		}
	}}
	i := inventory.New(k, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.Follow(ctx, make(chan struct{}), time.Millisecond, func(err error) { t.Error(err) })
	}()
	time.Sleep(50 * time.Millisecond) // Follow may wait by then; the test passes if it does not yet
	broken.Store(true)
	if _, err := i.Refresh(t.Context()); err != nil { // another caller's
		t.Fatal(err)
	}
	broken.Store(false)
	changed := i.Changed()
	select {
	case <-changed:
	case <-time.After(5 * time.Minute):
		t.Error("the PF was not listed again")
	}
	if pf := i.PFs()[0]; pf.Err != "" {
		t.Errorf("the PF is still unread: %s", pf.Err)
	}
	cancel()
	<-ended
}
