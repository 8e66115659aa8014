package inventory_test

import (
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/inventory"
	"github.com/culvert-net/culvert/internal/vf"
)

// I2: a VF shows what its PF's driver can set once the driver was asked, and no longer than the PF has
// VFs. Without VFs, the mode of the card's switch may change, and with it what the driver can set.
func TestI2AbilitiesEndWithTheVFs(t *testing.T) {
	k := fake.New(fake.BNX2X, 1)
	i := inventory.New(k, nil)
	list := func(vfs int) vf.PF {
		t.Helper()
		pfs, err := k.PFs(t.Context())
		if err == nil {
			err = k.Do(t.Context(), step.SetNumVFs{PF: pfs[0].PCI, N: vfs})
		}
		if err == nil {
			pfs, err = i.Refresh(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		return pfs[0]
	}
	pf := list(2)
	if i.Probed(pf.ID) || pf.VFs[1].Can[vf.SetMaxTxRate] != vf.Unknown {
		t.Errorf("known before the driver was asked: %v", pf.VFs[1].Can)
	}
	if can, err := i.Probe(t.Context(), pf, 0); err != nil || can[vf.SetMaxTxRate] != vf.No {
		t.Errorf("%v, %v", can, err)
	}
	if can := i.PFs()[0].VFs[1].Can; can[vf.SetMaxTxRate] != vf.No || can[vf.SetVLAN] != vf.Yes {
		t.Errorf("of a VF: %v", can)
	}
	if list(0); i.Probed(pf.ID) {
		t.Error("known of a PF without VFs")
	}
	if again := list(2); again.VFs[0].Can[vf.SetMaxTxRate] != vf.Unknown {
		t.Errorf("of VFs that were made anew: %v", again.VFs[0].Can)
	}
}
