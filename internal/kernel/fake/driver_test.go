package fake

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// TestSetNumVFs has the answers of sriov_numvfs_store (drivers/pci/iov.c): the count that is there
// changes nothing, another count takes a 0 between, and more than sriov_totalvfs is out of range.
func TestSetNumVFs(t *testing.T) {
	k, pf := made(t, IGB, 2)
	for _, c := range []struct {
		n    int
		want error
		have int
		same bool // the VFs are those of before
	}{
		{2, nil, 2, true},
		{3, syscall.EBUSY, 2, true},
		{IGB.TotalVFs + 1, syscall.ERANGE, 2, true},
		{0, nil, 0, false},
		{IGB.TotalVFs, nil, IGB.TotalVFs, false},
	} {
		before := first(t, k)
		err := k.Do(t.Context(), step.SetNumVFs{PF: pf.PCI, N: c.n})
		after := first(t, k)
		if !errors.Is(err, c.want) || after.NumVFs != c.have || len(after.VFs) != c.have {
			t.Errorf("%d VFs: %v, %d and %d VFs; want %v, %d", c.n, err, after.NumVFs, len(after.VFs), c.want, c.have)
		}
		if same := cmp.Equal(before.VFs, after.VFs, cmp.Comparer(func(a, b vf.State) bool { return a.PCI == b.PCI && a.Link.Index == b.Link.Index })); same != c.same {
			t.Errorf("%d VFs: they are those of before: %t", c.n, same)
		}
	}
}

// TestAutoprobe: with sriov_drivers_autoprobe off, the kernel binds no driver to new VFs
// (pci_device_can_probe of drivers/pci/pci-driver.c). The VFs that are there keep their drivers.
func TestAutoprobe(t *testing.T) {
	k, pf := made(t, IGB, 1)
	doSteps(t, k, step.SetAutoprobe{PF: pf.PCI})
	if v := first(t, k).VFs[0]; v.Driver != "igbvf" {
		t.Errorf("a VF that was there lost its driver: %q", v.Driver)
	}
	for on, want := range map[bool]string{false: "", true: "igbvf"} {
		doSteps(t, k, step.SetAutoprobe{PF: pf.PCI, On: on}, step.SetNumVFs{PF: pf.PCI}, step.SetNumVFs{PF: pf.PCI, N: 1})
		now := first(t, k)
		if v := now.VFs[0]; v.Driver != want || (v.Link != nil) != on || now.Autoprobe != vf.TriOf(on) {
			t.Errorf("autoprobe %t: driver %q, netdevice %v", on, v.Driver, v.Link)
		}
	}
}

// TestBind: a device has one driver (EBUSY, driver_probe_device of drivers/base/dd.c). Only the
// NIC's own driver makes a netdevice, and a new one each time. vfio-pci makes none.
func TestBind(t *testing.T) {
	k, pf := made(t, IGB, 1)
	v := pf.VFs[0].PCI
	index := pf.VFs[0].Link.Index
	for _, c := range []struct {
		step   step.Step
		want   error
		driver string
		link   bool
	}{
		{step.Bind{VF: v, Driver: "igbvf"}, nil, "igbvf", true},
		{step.Bind{VF: v, Driver: vf.DriverVFIO}, syscall.EBUSY, "igbvf", true},
		{step.Unbind{VF: v}, nil, "", false},
		{step.Unbind{VF: v}, nil, "", false},
		{step.Bind{VF: v, Driver: vf.DriverVFIO}, nil, vf.DriverVFIO, false},
		{step.Bind{VF: v}, syscall.EBUSY, vf.DriverVFIO, false},
		{step.Reset{VF: v}, nil, vf.DriverVFIO, false},
		{step.Unbind{VF: v}, nil, "", false},
		{step.Bind{VF: v, Driver: vf.DriverDefault}, nil, "igbvf", true},
		{step.Bind{VF: vf.PCIAddr{Bus: 99}}, vf.ErrNotFound, "igbvf", true},
	} {
		err := k.Do(t.Context(), c.step)
		now := first(t, k).VFs[0]
		if !errors.Is(err, c.want) || now.Driver != c.driver || (now.Link != nil) != c.link {
			t.Errorf("%s: %v, driver %q, netdevice %v; want %v, %q, %t", c.step, err, now.Driver, now.Link, c.want, c.driver, c.link)
		}
	}
	if now := first(t, k).VFs[0].Link.Index; now == index {
		t.Errorf("the netdevice is the one of before, %d", now)
	}
}

// TestMACAtBind: the VF driver takes over the admin MAC when it binds, and makes up a MAC address
// where there is none (igbvf_probe of drivers/net/ethernet/intel/igbvf/netdev.c). A netdevice that
// is there keeps its own.
func TestMACAtBind(t *testing.T) {
	k, pf := made(t, IGB, 1)
	v, mac := pf.VFs[0], vf.MAC{2, 0, 0, 0, 0, 1}
	doSteps(t, k, step.SetVFMAC{PF: pf.PCI, MAC: mac})
	if now := first(t, k).VFs[0]; now.Link.MAC != v.Link.MAC || now.Admin.MAC != mac {
		t.Errorf("before the bind: %s, admin MAC %s", now.Link.MAC, now.Admin.MAC)
	}
	doSteps(t, k, step.Unbind{VF: v.PCI}, step.Bind{VF: v.PCI})
	if now := first(t, k).VFs[0].Link.MAC; now != mac {
		t.Errorf("after the bind: %s, want %s", now, mac)
	}
	doSteps(t, k, step.SetVFMAC{PF: pf.PCI}, step.Unbind{VF: v.PCI}, step.Bind{VF: v.PCI})
	if now := first(t, k).VFs[0].Link.MAC; now == mac || now == v.Link.MAC || now.IsZero() {
		t.Errorf("without an admin MAC: %s", now)
	}
}

// TestUsers: a program can open a VF through vfio-pci alone, and the kernel waits until it lets go
// before it takes the driver away (vfio_unregister_group_dev of drivers/vfio/vfio_main.c).
func TestUsers(t *testing.T) {
	k, pf := made(t, IGB, 2)
	v, other := pf.VFs[0].PCI, pf.VFs[1].PCI
	qemu := vf.Process{PID: 7, Name: "qemu"}
	if err := k.Open(v, qemu); !errors.Is(err, vf.ErrUnable) {
		t.Errorf("opened with igbvf bound: %v", err)
	}
	doSteps(t, k, step.Unbind{VF: v}, step.Bind{VF: v, Driver: vf.DriverVFIO})
	must(t, k.Open(v, qemu))
	users := func() map[vf.PCIAddr][]vf.Process {
		t.Helper()
		all, err := k.Users(t.Context(), v, other, vf.PCIAddr{Bus: 99})
		must(t, err)
		return all
	}
	if diff := cmp.Diff(map[vf.PCIAddr][]vf.Process{v: {qemu}}, users()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := k.Do(t.Context(), step.Unbind{VF: v}); !errors.Is(err, vf.ErrTimeout) || first(t, k).VFs[0].Driver != vf.DriverVFIO {
		t.Errorf("unbound while it is open: %v", err)
	}
	must(t, k.Open(v))
	if all := users(); len(all) != 0 {
		t.Errorf("after it was closed: %v", all)
	}
	doSteps(t, k, step.Unbind{VF: v})
}

// TestSettingsThatOutliveAVF: the AF of an OCTEON keeps the settings of a VF that is destroyed, and
// gives them to the next one with its number (vf.Driver.KeepsSettings). Other drivers forget them.
func TestSettingsThatOutliveAVF(t *testing.T) {
	for name, c := range map[string]struct {
		profile Profile
		kept    bool
	}{"igb": {IGB, false}, "rvu_nicpf": {RVU, true}} {
		k, pf := made(t, c.profile, 2)
		mac := vf.MAC{2, 0, 0, 0, 0, 1}
		doSteps(t, k, step.SetVFMAC{PF: pf.PCI, Index: 1, MAC: mac},
			step.SetNumVFs{PF: pf.PCI}, step.SetNumVFs{PF: pf.PCI, N: 2})
		now := first(t, k).VFs
		if (now[1].Admin.MAC == mac) != c.kept || now[0].Admin.MAC == mac {
			t.Errorf("%s: vf 0 has %s, vf 1 has %s", name, now[0].Admin.MAC, now[1].Admin.MAC)
		}
	}
}

// TestNamesOfNetdevices: udev names a netdevice after its slot, with the PF's function if that is
// not 0. If the name is taken, the netdevice keeps its name of the kernel.
func TestNamesOfNetdevices(t *testing.T) {
	k, pf := made(t, IGB, 2)
	a, b := pf.VFs[0], pf.VFs[1]
	if a.Link.Name != "enp1s0v0" {
		t.Errorf("vf 0 is %s", a.Link.Name)
	}
	doSteps(t, k, step.Unbind{VF: a.PCI}, step.Rename{VF: b.PCI, Name: "enp1s0v0"},
		step.Bind{VF: a.PCI})
	if l := first(t, k).VFs[0].Link; l.Name != fmt.Sprintf("eth%d", l.Index) {
		t.Errorf("its name is taken, and vf 0 is %s with index %d", l.Name, l.Index)
	}
	k = New(CXGB4, 2)
	pfs, err := k.PFs(t.Context())
	must(t, err)
	doSteps(t, k, step.SetNumVFs{PF: pfs[1].PCI, N: 1})
	pf, err = k.PF(t.Context(), pfs[1].PCI)
	if err != nil || pf.VFs[0].Link.Name != "enp1s0f1v0" {
		t.Errorf("of the PF at %s: %+v, %v", pf.PCI, pf.VFs, err)
	}
}
