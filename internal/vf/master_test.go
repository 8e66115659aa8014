package vf

import (
	"strings"
	"testing"
)

func TestMaster(t *testing.T) {
	const stays = "when m0 fails over, a VF stays on the wire of its PF: a pod that must keep its network needs a bond of its own (docs/bond.md)"
	for _, tt := range []struct {
		master   Master
		text     string
		setsMTU  bool
		failOver string
	}{
		{Master{Name: "m0", Kind: MasterBond, Mode: BondActiveBackup, Active: "enp1s0"}, "m0 (bond, active-backup, enp1s0 is active)", true, stays},
		{Master{Name: "m0", Kind: MasterBond, Mode: "balance-alb"}, "m0 (bond, balance-alb)", true, stays},
		{
			Master{Name: "m0", Kind: MasterBond, Mode: "802.3ad"}, "m0 (bond, 802.3ad)", true,
			stays + "; in mode 802.3ad the switch may send a VF's packets to another port of the group, where they are lost",
		},
		{Master{Name: "m0", Kind: MasterTeam}, "m0 (team)", true, stays},
		{Master{Name: "m0", Kind: MasterBridge}, "m0 (bridge)", false, ""},
		{Master{Name: "m0"}, "m0", false, ""},
	} {
		if got := tt.master.String(); got != tt.text {
			t.Errorf("%q, want %q", got, tt.text)
		}
		if got := tt.master.SetsMTU(); got != tt.setsMTU {
			t.Errorf("%s sets the MTU of its members: %t", tt.text, got)
		}
		if got := tt.master.FailOver(); got != tt.failOver {
			t.Errorf("%s: %q, want %q", tt.text, got, tt.failOver)
		}
	}
	for _, tt := range []struct {
		master *Master
		want   bool
	}{
		{nil, false},
		{&Master{Kind: MasterBond}, false},
		{&Master{Kind: MasterTeam}, false},
		{&Master{Kind: MasterBond, IsMember: true}, true},
		{&Master{Kind: MasterBridge}, true},
		{&Master{Kind: "openvswitch"}, true},
		{&Master{}, true},
	} {
		if got := tt.master.TakesFrames(); got != tt.want {
			t.Errorf("%+v takes frames: %t", tt.master, got)
		}
	}
	var none *Master
	if none.SetsMTU() || none.FailOver() != "" {
		t.Error("a PF without a master has one")
	}
}

// Two PFs of one bond of the host are on one segment and on two wires, so their VFs may be in one
// bond of a pod.
func TestPFsOfAHostBondAreApart(t *testing.T) {
	bond := &Master{Name: "bond0", Kind: MasterBond, Mode: BondActiveBackup, Active: "p"}
	mac := MAC{2, 0, 0, 0, 0, 1} // the bond's, which both have
	p := PF{ID: PFID{MAC: mac}, Name: "p", PCI: PCIAddr{Bus: 1}, MAC: mac, Master: bond}
	q := PF{ID: PFID{MAC: MAC{2, 0, 0, 0, 0, 2}}, Name: "q", PCI: PCIAddr{Bus: 2}, MAC: mac, Master: bond}
	for _, a := range []AntiAffinity{ApartPF, ApartNIC} {
		if shared := a.SharedPart(p, q); shared != "" {
			t.Errorf("%s: they share %s", a, shared)
		}
		if n := a.CountApart([]PF{p, q}); n != 2 {
			t.Errorf("%s: %d of the two can be in one bond", a, n)
		}
	}
}

// A VF cannot have a larger MTU than its PF. If a bond of the host sets that, the error names the
// bond, since host.yaml cannot change it.
func TestFitsNamesTheHostBond(t *testing.T) {
	mtu := 9000
	pf := PF{Name: "p0", Driver: "igb", MTU: 1500, Master: &Master{Name: "bond0", Kind: MasterBond}}
	const want = "mtu 9000: invalid: PF p0 has MTU 1500: raise the MTU of bond0, of which the PF is a member, or ask for at most 1500"
	if err := pf.Fits(Spec{MTU: &mtu}, Admin{}, "host.yaml:1"); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	pf.Master.Kind = MasterBridge
	if err := pf.Fits(Spec{MTU: &mtu}, Admin{}, "host.yaml:1"); err == nil || !strings.Contains(err.Error(), "raise its mtu in host.yaml:1") {
		t.Errorf("in a bridge: %v", err)
	}
}
