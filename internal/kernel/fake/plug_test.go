package fake

import (
	"errors"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// made returns a machine whose first PF has n VFs, their drivers bound.
func made(t *testing.T, p Profile, n int) (*Kernel, vf.PF) {
	t.Helper()
	k := New(p, 2)
	pf := first(t, k)
	for _, s := range []step.Step{step.SetPFUp{PF: pf.PCI}, step.SetNumVFs{PF: pf.PCI, N: n}} {
		if err := k.Do(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	return k, first(t, k)
}

func first(t *testing.T, k *Kernel) vf.PF {
	t.Helper()
	pfs, err := k.PFs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pfs[0]
}

// VFs that another program makes have none of the settings and addresses of the former VFs.
func TestWriteNumVFsMakesOthers(t *testing.T) {
	k, before := made(t, IGB, 2)
	mac := vf.MAC{2, 0, 0, 0, 0, 1}
	if err := k.Do(t.Context(), step.SetVFMAC{PF: before.PCI, Index: 0, MAC: mac}); err != nil {
		t.Fatal(err)
	}
	if err := k.WriteNumVFs(before.PCI, 3); err != nil {
		t.Fatal(err)
	}
	after := first(t, k)
	if after.NumVFs != 3 || len(after.VFs) != 3 || !after.VFs[0].Admin.MAC.IsZero() {
		t.Errorf("%+v", after)
	}
	for i, v := range before.VFs {
		if after.VFs[i].Link.MAC == v.Link.MAC || after.VFs[i].Link.Index == v.Link.Index {
			t.Errorf("vf %d is the one that was there: %+v", i, after.VFs[i].Link)
		}
	}
}

func TestUnplugPF(t *testing.T) {
	k, pf := made(t, IGB, 2)
	if err := k.RemovePF(pf.PCI); err != nil {
		t.Fatal(err)
	}
	if _, err := k.PF(t.Context(), pf.PCI); !errors.Is(err, vf.ErrNotFound) {
		t.Error("the PF is still there:", err)
	}
	if _, err := k.VF(t.Context(), pf.VFs[0].PCI, ""); !errors.Is(err, vf.ErrNotFound) {
		t.Error("its VF is still there:", err)
	}
	second := first(t, k)
	if err := k.AddPF(pf.PCI, second.PCI); !errors.Is(err, vf.ErrHeld) {
		t.Error("two in one slot:", err)
	}
	slot := vf.PCIAddr{Bus: 9}
	if err := k.AddPF(pf.PCI, slot); err != nil {
		t.Fatal(err)
	}
	back, err := k.PF(t.Context(), slot)
	if err != nil || back.ID != pf.ID || back.Name != "enp9s0" || back.NumVFs != 0 || back.Up {
		t.Errorf("%+v %v", back, err)
	}
}

func TestUnplugVF(t *testing.T) {
	k, pf := made(t, IGB, 2)
	gone := pf.VFs[0].PCI
	if err := k.RemoveVF(gone); err != nil {
		t.Fatal(err)
	}
	now := first(t, k)
	if now.NumVFs != 2 || len(now.VFs) != 1 || now.VFs[0].ID.Index != 1 {
		t.Errorf("%+v", now)
	}
	if err := k.Do(t.Context(), step.Unbind{VF: gone}); !errors.Is(err, vf.ErrNotFound) {
		t.Error(err)
	}
	if err := k.ReturnVF(gone); err != nil {
		t.Fatal(err)
	}
	back := first(t, k).VFs
	if len(back) != 2 || back[0].PCI != gone || back[0].Link == nil || back[0].Link.MAC == pf.VFs[0].Link.MAC {
		t.Errorf("%+v", back)
	}
	if err := k.ReturnVF(gone); !errors.Is(err, vf.ErrNotFound) {
		t.Error("twice:", err)
	}
}

// A PF or VF that is not there can be neither unplugged nor plugged in, and has no files to write.
func TestPlugOfNone(t *testing.T) {
	k, pf := made(t, IGB, 1)
	none, before := vf.PCIAddr{Bus: 99}, k.String()
	for name, err := range map[string]error{
		"RemovePF": k.RemovePF(none), "AddPF": k.AddPF(pf.PCI, none), "RemoveVF": k.RemoveVF(none), "ReturnVF": k.ReturnVF(pf.VFs[0].PCI),
		"WriteNumVFs": k.WriteNumVFs(none, 1), "SetLinkSpeed": k.SetLinkSpeed(none, 1000), "JoinMaster": k.JoinMaster(none, "bond0"),
	} {
		if !errors.Is(err, vf.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if k.String() != before {
		t.Errorf("before: %s\nafter: %s", before, k)
	}
}

// With autoprobe off, a VF that returns has no driver, like a new VF.
func TestReturnVFWithoutAutoprobe(t *testing.T) {
	k, pf := made(t, IGB, 1)
	if err := errors.Join(k.Do(t.Context(), step.SetAutoprobe{PF: pf.PCI}), k.RemoveVF(pf.VFs[0].PCI), k.ReturnVF(pf.VFs[0].PCI)); err != nil {
		t.Fatal(err)
	}
	if v := first(t, k).VFs[0]; v.Driver != "" || v.Link != nil {
		t.Errorf("%+v", v)
	}
}

func TestSetLinkSpeed(t *testing.T) {
	k, pf := made(t, IGB, 0)
	if err := k.SetLinkSpeed(pf.PCI, 100); err != nil {
		t.Fatal(err)
	}
	if got := first(t, k).SpeedMbps; got != 100 {
		t.Error(got)
	}
}
