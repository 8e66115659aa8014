package attach_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/culvert-net/culvert/desired"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/kernel/fake"
	"github.com/culvert-net/culvert/kernel/step"
	"github.com/culvert-net/culvert/node"
	"github.com/culvert-net/culvert/vf"
)

// noUdev is a machine without udev: a VF that is bound gets the first ethN
// that is free.
type noUdev struct{ *fake.Kernel }

func (k noUdev) Do(ctx context.Context, s step.Step) error {
	err := k.Kernel.Do(ctx, s)
	bind, ok := s.(step.Bind)
	if err != nil || !ok || bind.Driver != "" {
		return err
	}
	for n := 0; ; n++ {
		err := k.Kernel.Do(ctx, step.Rename{VF: bind.VF, Name: fmt.Sprintf("eth%d", n)})
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

// I2, I3: VFs that sit on each other's names come home.
func TestI2NamesOfEachOther(t *testing.T) {
	k := noUdev{fake.New(fake.IGB, 1)}
	l, err := journal.Open(filepath.Join(t.TempDir(), "ledger.db"), journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := node.New(node.Config{Kernel: k, Ledger: l, BootID: "boot 1"})
	n.SetSpec(desired.Spec{
		PFs:   []desired.PFRule{{Name: "enp*", Want: desired.PFSpec{VFs: desired.AllVFs, Autoprobe: true, NeedCarrier: true}}},
		Pools: []desired.Pool{{Name: "a", Prefix: "x", DeviceType: desired.NetDevice}},
	})
	if err := errors.Join(n.Start(t.Context()), n.Reconciler.Pass(t.Context(), false)); err != nil {
		t.Fatal(err)
	}
	for _, ring := range []int{2, 3, 7} {
		rotateNames(t, k, n.Inventory.PFs()[0].VFs[:ring])
		if err := n.Reconciler.Pass(t.Context(), false); err != nil {
			t.Error(err)
		}
		if err := n.Reconciler.Pass(t.Context(), false); err != nil { // for those that had to make room
			t.Error(err)
		}
		n.Engine.Wait()
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
