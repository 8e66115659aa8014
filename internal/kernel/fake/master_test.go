package fake

import (
	"errors"
	"syscall"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// hostBond returns a machine with two PFs, up, in a bond of the host of MTU 4000.
func hostBond(t *testing.T) *Kernel {
	t.Helper()
	k := New(IGB, 2)
	must(t, k.AddMaster("bond0", vf.MasterBond, vf.BondActiveBackup), k.SetMasterMTU("bond0", 4000))
	for _, p := range list(t, k) {
		must(t, k.JoinMaster(p.PCI, "bond0"))
	}
	return k
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, k *Kernel) []vf.PF {
	t.Helper()
	pfs, err := k.PFs(t.Context())
	must(t, err)
	return pfs
}

// Members of a bond have its MTU and MAC address, and their own identity, carrier and, once they
// leave, MTU.
func TestHostBond(t *testing.T) {
	k := hostBond(t)
	pfs := list(t, k)
	for _, p := range pfs {
		if p.Master == nil || *p.Master != (vf.Master{Name: "bond0", Kind: "bond", Mode: vf.BondActiveBackup, Active: "enp1s0"}) {
			t.Errorf("%s: %v", p.Name, p.Master)
		}
		if !p.Up || p.MTU != 4000 || p.MAC != pfs[0].ID.MAC {
			t.Errorf("%s: up %t, MTU %d, MAC address %s", p.Name, p.Up, p.MTU, p.MAC)
		}
	}
	if pfs[0].ID == pfs[1].ID {
		t.Error("the members have one identity")
	}
	k.Cable(pfs[0].PCI, false)
	if now := list(t, k); now[0].Carrier || !now[1].Carrier || now[0].Master.Active != "enp2s0" {
		t.Errorf("after the fail-over: %v", now)
	}
	k.Cable(pfs[0].PCI, true)
	if now := list(t, k); now[0].Master.Active != "enp2s0" {
		t.Errorf("it fails back to %s", now[0].Master.Active)
	}
	must(t, k.LeaveMaster(pfs[0].PCI))
	if p := first(t, k); p.Master != nil || p.Up || p.MTU != 1500 || p.MAC != p.ID.MAC {
		t.Errorf("after it left: %+v", p)
	}
}

// A bond accepts another MTU for one member and overwrites it when its own MTU changes next. A team
// refuses it. A bridge follows its members.
func TestMTUOfMember(t *testing.T) {
	k := hostBond(t)
	p := first(t, k)
	set := func(mtu int) error { return k.Do(t.Context(), step.SetPFMTU{PF: p.PCI, MTU: mtu}) }
	must(t, set(3000))
	if now := list(t, k); now[0].MTU != 3000 || now[1].MTU != 4000 || k.findMaster("bond0").mtu != 4000 {
		t.Errorf("one member has another MTU: %s", k)
	}
	must(t, k.SetMasterMTU("bond0", 5000))
	if now := list(t, k); now[0].MTU != 5000 || now[1].MTU != 5000 {
		t.Errorf("the bond has another MTU: %s", k)
	}
	if err := k.SetMasterMTU("bond0", 65535); !errors.Is(err, syscall.EINVAL) || first(t, k).MTU != 5000 {
		t.Errorf("more than its members can have: %v", err)
	}
	must(t, k.LeaveMaster(p.PCI), k.AddMaster("team0", vf.MasterTeam, ""), k.JoinMaster(p.PCI, "team0"))
	if err := set(3000); !errors.Is(err, syscall.EPERM) || first(t, k).MTU != 1500 {
		t.Errorf("a member of a team: %v", err)
	}
	must(t, k.LeaveMaster(p.PCI), k.AddMaster("br0", vf.MasterBridge, ""), k.JoinMaster(p.PCI, "br0"), set(3000))
	if m := k.findMaster("br0"); m.mtu != 3000 || first(t, k).MTU != 3000 {
		t.Errorf("a member of a bridge: %s", k)
	}
}

// The errors are those of bond_enslave (drivers/net/bonding/bond_main.c), of team_port_add
// (drivers/net/team), and of a new MTU (dev_validate_mtu of net/core/dev.c).
func TestJoinMasterRefuses(t *testing.T) {
	k := hostBond(t)
	p := first(t, k)
	if err := k.AddMaster("bond0", vf.MasterTeam, ""); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("two of one name: %v", err)
	}
	if err := k.SetMasterMTU("bond1", 1500); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("MTU of no bond: %v", err)
	}
	if err := k.Do(t.Context(), step.SetPFMTU{PF: p.PCI, MTU: IGB.MaxMTU + 1}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("MTU above the largest: %v", err)
	}
	if err := k.JoinMaster(p.PCI, "bond0"); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("a member: %v", err)
	}
	must(t, k.LeaveMaster(p.PCI), k.Do(t.Context(), step.SetPFUp{PF: p.PCI}))
	if err := k.JoinMaster(p.PCI, "bond0"); !errors.Is(err, syscall.EPERM) {
		t.Errorf("one that is up: %v", err)
	}
	must(t, k.AddMaster("team0", vf.MasterTeam, ""))
	if err := k.JoinMaster(p.PCI, "team0"); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("one that is up, to a team: %v", err)
	}
	if err := k.JoinMaster(p.PCI, "bond1"); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("no bond: %v", err)
	}
	must(t, k.DownPF(p.PCI), k.JoinMaster(p.PCI, "bond0"))
	k.Reboot()
	if p := first(t, k); p.Master != nil || p.MTU != 1500 {
		t.Errorf("after the reboot: %+v", p)
	}
}
