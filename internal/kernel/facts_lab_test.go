package kernel_test

import (
	"errors"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// The cached facts of a VF are up to date: its driver is the present one, and after the VF was
// removed and made again, its facts are read anew.
func TestLabFactsOfAVFThatCameBack(t *testing.T) {
	n := labNode(t)
	v := n.bound(0, 3)
	if v.Driver != "igbvf" || v.ID.Index != 3 || v.ID.PF != n.pfs[0].ID {
		t.Errorf("bound: %+v", v)
	}
	n.do(step.Unbind{VF: v.PCI})
	if s := n.vf(0, 3, ""); s.Driver != "" || s.Vendor != v.Vendor {
		t.Errorf("unbound: %+v", s)
	}
	pf := n.pfs[0].PCI
	n.do(step.SetNumVFs{PF: pf, N: 0})
	if _, err := n.VF(n.context(), v.PCI, ""); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("gone: %v", err)
	}
	n.do(step.SetNumVFs{PF: pf, N: perPF}, step.WaitCarrier{PF: pf})
	s := n.vf(0, 3, "")
	group := filepath.Base(link(t, v.PCI, "iommu_group"))
	if strconv.Itoa(s.IOMMUGroup) != group || s.ID != v.ID || s.PCI != v.PCI {
		t.Errorf("back, in IOMMU group %s: %+v", group, s)
	}
}

func link(t *testing.T, addr vf.PCIAddr, name string) string {
	t.Helper()
	to, err := filepath.EvalSymlinks(filepath.Join("/sys/bus/pci/devices", addr.String(), name))
	if err != nil {
		t.Fatal(err)
	}
	return to
}
