package reconcile_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// busy is a machine whose udev is late: the first bind of a VF times out while the netdevice still
// has the kernel's name. A later bind succeeds.
type busy struct {
	*fake.Kernel
	mu    sync.Mutex // guards named
	named map[vf.PCIAddr]string
}

func (k *busy) Do(ctx context.Context, s step.Step) error {
	bind, ok := s.(step.Bind)
	if !ok || bind.Driver != "" {
		return k.Kernel.Do(ctx, s)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, again := k.named[bind.VF]; again {
		return k.Kernel.Do(ctx, s)
	}
	if err := k.Kernel.Do(ctx, s); err != nil {
		return err
	}
	st, err := k.VF(ctx, bind.VF, "")
	if err != nil {
		return err
	}
	k.named[bind.VF] = st.Link.Name
	if err := k.Kernel.Do(ctx, step.Rename{VF: bind.VF, Name: "raw" + st.Link.Name}); err != nil {
		return err
	}
	return vf.ErrTimeout
}

// I2: the baseline of a VF has the name that udev gave its netdevice, even if udev was late.
func TestI2BaselineHasUdevsName(t *testing.T) {
	k := &busy{Kernel: fake.New(fake.IGB, 1), named: map[vf.PCIAddr]string{}}
	l, err := journal.Open(filepath.Join(t.TempDir(), "ledger.db"), journal.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	n := node.New(node.Config{Kernel: k, Ledger: l, BootID: "boot 1"})
	n.SetSpec(desired.Spec{PFs: []desired.PFRule{{Name: "enp*", Want: desired.PFSpec{VFs: 3, Autoprobe: true}}}})
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n.Reconciler.Pass(t.Context()) == nil {
		t.Error("no bind timed out")
	}
	if err := n.Reconciler.Pass(t.Context()); err != nil {
		t.Error(err)
	}
	err = l.View(func(tx *journal.Tx) error {
		records := tx.Records()
		for _, r := range records {
			if r.Phase != vf.PhaseFree || r.Baseline.Name != k.named[r.PCI] {
				t.Errorf("VF %s is %s and called %q, want %q", r.PCI, r.Phase, r.Baseline.Name, k.named[r.PCI])
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
