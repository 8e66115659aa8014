package attach_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// noUdev is a machine without udev: the netdevice of a newly bound VF gets the first free name
// ethN.
type noUdev struct {
	*fake.Kernel
	binds *atomic.Int32 // how many VFs it has bound to their own driver
}

func (k noUdev) Do(ctx context.Context, s step.Step) error {
	err := k.Kernel.Do(ctx, s)
	bind, ok := s.(step.Bind)
	if err != nil || !ok || bind.Driver != "" {
		return err
	}
	k.binds.Add(1)
	for n := 0; ; n++ {
		err := k.Kernel.Do(ctx, step.Rename{VF: bind.VF, Name: fmt.Sprintf("eth%d", n)})
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

// newNodeWithoutUdev starts culvertd on such a machine, which has one PF.
func newNodeWithoutUdev(t *testing.T) (noUdev, *node.Node) {
	t.Helper()
	k := noUdev{fake.New(fake.IGB, 1), &atomic.Int32{}}
	k.AddNetns(podNetns)
	l, err := journal.Open(filepath.Join(t.TempDir(), "ledger.db"), journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	n := node.New(node.Config{Kernel: k, Ledger: l, BootID: "boot 1"})
	n.SetSpec(desired.Spec{
		PFs:   []desired.PFRule{{Name: "enp*", Want: desired.PFSpec{VFs: desired.AllVFs, Autoprobe: true, NeedCarrier: true}}},
		Pools: []desired.Pool{{Name: "a", Prefix: "x", DeviceType: desired.NetDevice}},
	})
	if err := errors.Join(n.Start(t.Context()), n.Reconciler.Pass(t.Context())); err != nil {
		t.Fatal(err)
	}
	return k, n
}

// I2: culvertd binds the driver of a VF that returns with another attribute anew once.
// Once is enough also where the new interface gets another name at first: each bind
// takes some drivers a second.
func TestI2RenamesAnInterfaceThatIsNew(t *testing.T) {
	k, n := newNodeWithoutUdev(t)
	var recs [2]journal.Record
	for i, pod := range []string{"a", "b"} { // the interface of each is away, so its name on the host is free
		req := everything(t)
		req.Owner.UID, req.Spec.Interface, req.IPAM.Routes = pod, "net"+pod, nil
		req.Spec.MAC = nil // for another MAC a driver is bound anew in any case
		req.VF = vfWithName(n, fmt.Sprintf("eth%d", i))
		var err error
		if recs[i], err = n.Engine.Attach(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.SetAttribute(recs[1].PCI, "txqlen", "1"); err != nil {
		t.Fatal(err)
	}
	before := k.binds.Load()
	if err := n.Resets.Detach(t.Context(), recs[1].Lease.Owner); err != nil {
		t.Fatal(err)
	}
	if got := k.binds.Load() - before; got != 1 {
		t.Errorf("its driver was bound %d times", got)
	}
	if err := n.Resets.Detach(t.Context(), recs[0].Lease.Owner); err != nil {
		t.Fatal(err)
	}
	clean(t, n, 7)
}

// vfWithName finds a VF by the name of its interface.
func vfWithName(n *node.Node, name string) (found vf.PCIAddr) {
	for _, v := range n.Inventory.PFs()[0].VFs {
		if v.Link != nil && v.Link.Name == name {
			found = v.PCI
		}
	}
	return found
}

// I2, I3: VFs whose interfaces have each other's names get their own names back.
func TestI2NamesOfEachOther(t *testing.T) {
	k, n := newNodeWithoutUdev(t)
	for _, ring := range []int{2, 3, 7} {
		rotateNames(t, k, n.Inventory.PFs()[0].VFs[:ring])
		if err := n.Reconciler.Pass(t.Context()); err != nil {
			t.Error(err)
		}
		if err := n.Reconciler.Pass(t.Context()); err != nil { // for VFs that got a temporary name
			t.Error(err)
		}
		n.VFs.Wait()
		clean(t, n, 7)
	}
}

// rotateNames gives each VF the name of the next.
func rotateNames(t *testing.T, k noUdev, vfs []vf.State) {
	t.Helper()
	for _, v := range vfs {
		if err := k.Do(t.Context(), step.Rename{VF: v.PCI, Name: v.Link.Name + "x"}); err != nil {
			t.Fatal(err)
		}
	}
	for i, v := range vfs {
		if err := k.Do(t.Context(), step.Rename{VF: v.PCI, Name: vfs[(i+1)%len(vfs)].Link.Name}); err != nil {
			t.Fatal(err)
		}
	}
}
