package fake

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// The bond of the fake kernel moves as Linux' does: kernel.TestLabBond has the same steps.
func TestSetBondActive(t *testing.T) {
	const pod = "/run/netns/c1"
	k := New(IGB, 2)
	k.AddNetns(pod)
	do := func(steps ...step.Step) {
		t.Helper()
		for _, s := range steps {
			if err := k.Do(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
	}
	pfs, err := k.PFs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, pf := range pfs {
		do(step.SetPFUp{PF: pf.PCI}, step.SetNumVFs{PF: pf.PCI, N: 2})
	}
	if pfs, err = k.PFs(t.Context()); err != nil {
		t.Fatal(err)
	}
	a, b, other := pfs[0].VFs[0].PCI, pfs[1].VFs[0].PCI, pfs[0].VFs[1].PCI
	do(step.AddBond{Netns: pod, Name: "net1", Mark: "c1/1", Bond: vf.Bond{Links: 2, Mode: vf.BondActiveBackup}})
	for _, m := range []struct {
		pci  vf.PCIAddr
		name string
	}{{a, "net1a"}, {b, "net1b"}} {
		do(step.Move{VF: m.pci, To: pod, Name: m.name}, step.Enslave{VF: m.pci, Netns: pod, Bond: "net1"})
	}
	do(step.Move{VF: other, To: pod, Name: "net2"}, step.SetBondPrimary{VF: b, Netns: pod, Bond: "net1"}, step.SetUp{VF: a, Netns: pod, Bond: "net1", Up: true})
	active := func() vf.PCIAddr {
		for _, m := range []vf.PCIAddr{a, b} {
			if st, err := k.VF(t.Context(), m, pod); err == nil && st.Link.Bond.Active {
				return m
			}
		}
		return vf.PCIAddr{}
	}
	for _, s := range []struct {
		to   vf.PCIAddr
		from []vf.PCIAddr
		want vf.PCIAddr
		err  error
	}{
		{a, nil, b, vf.ErrUnchanged},
		{a, []vf.PCIAddr{a}, b, vf.ErrUnchanged},
		{a, []vf.PCIAddr{b}, a, nil},
		{b, []vf.PCIAddr{b}, a, vf.ErrUnchanged},
		{b, []vf.PCIAddr{a}, b, nil},
		{other, []vf.PCIAddr{b}, b, vf.ErrNotFound},
	} {
		err := k.Do(t.Context(), step.SetBondActive{VF: s.to, From: s.from, Netns: pod, Bond: "net1"})
		if got := active(); got != s.want || !errors.Is(err, s.err) {
			t.Errorf("to VF %s from %v: VF %s sends, want VF %s; %v, want %v", s.to, s.from, got, s.want, err, s.err)
		}
	}
	do(step.SetUp{VF: a, Netns: pod})
	err = k.Do(t.Context(), step.SetBondActive{VF: a, From: []vf.PCIAddr{b}, Netns: pod, Bond: "net1"})
	if got := active(); got != b || !errors.Is(err, vf.ErrUnable) {
		t.Errorf("to a member that is down: VF %s sends, %v", got, err)
	}
}

// podBond is the step that makes the bond of these tests.
func podBond(mode vf.BondMode, mtu int) step.AddBond {
	return step.AddBond{Netns: podNetns, Name: "bond0", Mark: "c1/1", Bond: vf.Bond{Links: 2, Mode: mode}, MTU: mtu}
}

// TestEnslave: bond_enslave (drivers/net/bonding/bond_main.c) brings the member up and gives it the
// bond's MTU. The bond takes the MAC address of its first member. __bond_release_one takes the
// member down and gives it its own MTU again.
func TestEnslave(t *testing.T) {
	k, _, v, _ := inPod(t)
	doSteps(t, k, podBond(vf.BondActiveBackup, 4000), step.SetMTU{VF: v, Netns: podNetns, MTU: 2000})
	mac := podLink(t, k, v).MAC
	doSteps(t, k, step.Enslave{VF: v, Netns: podNetns, Bond: "bond0"})
	l := podLink(t, k, v)
	if !l.Up || l.MTU != 4000 || l.MAC != mac || l.Attributes.Value(master) != "bond0" {
		t.Errorf("a member: %+v", l)
	}
	b := l.Bond
	if b == nil || b.Link.Name != "bond0" || b.Mark != "c1/1" || b.Mode != vf.BondActiveBackup || !b.FailOverMAC || !b.Active || b.Primary || b.Link.MAC != mac || b.Link.Up || b.Link.Carrier {
		t.Fatalf("its bond: %+v", b)
	}
	if b.ARPMissedMax != 2 { // bond_check_params
		t.Errorf("arp_missed_max is %d", b.ARPMissedMax)
	}
	doSteps(t, k, step.Enslave{VF: v, Netns: podNetns, Bond: "bond0"}) // it is a member already
	doSteps(t, k, step.SetUp{VF: v, Netns: podNetns, Bond: "bond0", Up: true})
	if b := podLink(t, k, v).Bond; !b.Link.Up || !b.Link.Carrier {
		t.Errorf("the bond is up: %+v", b.Link)
	}
	doSteps(t, k, step.DelBond{Netns: podNetns, Name: "bond0", Mark: "another"})
	if podLink(t, k, v).Bond == nil {
		t.Fatal("a bond with another mark was removed")
	}
	doSteps(t, k, step.DelBond{Netns: podNetns, Name: "bond0", Mark: "c1/1"}, step.DelBond{Netns: podNetns, Name: "bond0", Mark: "c1/1"})
	if l := podLink(t, k, v); l.Bond != nil || l.Up || l.MTU != 2000 || l.MAC != mac || l.Attributes.Value(master) != "" {
		t.Errorf("after it left: %+v", l)
	}
}

// TestEnslaveRefuses has the errors of bond_enslave (drivers/net/bonding/bond_main.c), and of the
// VF driver that it asks for another MTU or MAC address. A step that fails changes nothing.
func TestEnslaveRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		mode  vf.BondMode
		mtu   int
		steps func(up, down, host vf.PCIAddr) []step.Step // the last one fails
		want  error
	}{
		{"what is up", vf.BondActiveBackup, 0, func(up, _, _ vf.PCIAddr) []step.Step {
			return []step.Step{step.Enslave{VF: up, Netns: podNetns, Bond: "bond0"}}
		}, syscall.EPERM},
		{"a member of another bond", vf.BondActiveBackup, 0, func(_, down, _ vf.PCIAddr) []step.Step {
			return []step.Step{step.AddBond{Netns: podNetns, Name: "bond1", Mark: "c1/2", Bond: vf.Bond{Mode: vf.BondActiveBackup}},
				step.Enslave{VF: down, Netns: podNetns, Bond: "bond1"}, step.Enslave{VF: down, Netns: podNetns, Bond: "bond0"}}
		}, syscall.EBUSY},
		{"an MTU that it cannot have", vf.BondActiveBackup, IGB.MaxMTU + 1, func(_, down, _ vf.PCIAddr) []step.Step {
			return []step.Step{step.Enslave{VF: down, Netns: podNetns, Bond: "bond0"}}
		}, syscall.EINVAL},
		{"a MAC address that its PF pins", "balance-rr", 0, func(up, down, _ vf.PCIAddr) []step.Step {
			return []step.Step{step.SetUp{VF: up, Netns: podNetns}, step.Enslave{VF: up, Netns: podNetns, Bond: "bond0"}, step.Enslave{VF: down, Netns: podNetns, Bond: "bond0"}}
		}, syscall.EADDRNOTAVAIL},
		{"where there is no bond", vf.BondActiveBackup, 0, func(_, down, _ vf.PCIAddr) []step.Step {
			return []step.Step{step.Enslave{VF: down, Netns: podNetns, Bond: "bond9"}}
		}, vf.ErrNotFound},
		{"what is on the host", vf.BondActiveBackup, 0, func(_, _, host vf.PCIAddr) []step.Step {
			return []step.Step{step.Enslave{VF: host, Netns: podNetns, Bond: "bond0"}}
		}, vf.ErrNotFound},
		{"a primary that is no member", vf.BondActiveBackup, 0, func(_, down, _ vf.PCIAddr) []step.Step {
			return []step.Step{step.SetBondPrimary{VF: down, Netns: podNetns, Bond: "bond0"}}
		}, syscall.EINVAL},
		{"a bond whose name is taken", vf.BondActiveBackup, 0, func(vf.PCIAddr, vf.PCIAddr, vf.PCIAddr) []step.Step {
			return []step.Step{step.AddBond{Netns: podNetns, Name: "net1", Mark: "c1/2"}}
		}, syscall.EEXIST},
		{"a bond in a netns that is gone", vf.BondActiveBackup, 0, func(vf.PCIAddr, vf.PCIAddr, vf.PCIAddr) []step.Step {
			return []step.Step{step.AddBond{Netns: "/gone", Name: "bond1", Mark: "c1/2"}}
		}, vf.ErrNetnsGone},
	} {
		k, up, down, host := inPod(t)
		for i := range 3 {
			doSteps(t, k, step.SetVFMAC{PF: first(t, k).PCI, Index: i, MAC: vf.MAC{2, 0, 0, 0, 0, byte(i)}})
		}
		doSteps(t, k, podBond(c.mode, c.mtu))
		steps := c.steps(up, down, host)
		doSteps(t, k, steps[:len(steps)-1]...)
		before := k.String()
		if err := k.Do(t.Context(), steps[len(steps)-1]); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if diff := cmp.Diff(before, k.String()); diff != "" {
			t.Errorf("%s changes something: -before +after:\n%s", c.name, diff)
		}
	}
}

// TestBondFailsOver: the member that sends goes on sending until it is down
// (bond_select_active_slave of drivers/net/bonding/bond_main.c), and the bond has its MAC address
// (fail_over_mac active). A bond without a member that is up has no carrier.
func TestBondFailsOver(t *testing.T) {
	k, a, b, _ := inPod(t)
	doSteps(t, k, step.SetUp{VF: a, Netns: podNetns}, podBond(vf.BondActiveBackup, 0),
		step.Enslave{VF: a, Netns: podNetns, Bond: "bond0"}, step.Enslave{VF: b, Netns: podNetns, Bond: "bond0"}, step.SetUp{VF: a, Netns: podNetns, Bond: "bond0", Up: true})
	for _, c := range []struct {
		what    string
		change  func()
		sends   vf.PCIAddr // the zero value: none
		carrier bool
	}{
		{"the first member", func() {}, a, true},
		{"it goes down", func() { doSteps(t, k, step.SetUp{VF: a, Netns: podNetns}) }, b, true},
		{"it comes back", func() { doSteps(t, k, step.SetUp{VF: a, Netns: podNetns, Up: true}) }, b, true},
		{"the kernel changes it", func() { must(t, k.Activate(a)) }, a, true},
		{"a step changes it", func() {
			doSteps(t, k, step.SetBondActive{VF: b, From: []vf.PCIAddr{a}, Netns: podNetns, Bond: "bond0"})
		}, b, true},
		{"both are down", func() { doSteps(t, k, step.SetUp{VF: a, Netns: podNetns}, step.SetUp{VF: b, Netns: podNetns}) }, vf.PCIAddr{}, false},
		{"one comes back", func() { doSteps(t, k, step.SetUp{VF: b, Netns: podNetns, Up: true}) }, b, true},
		{"its driver goes", func() { doSteps(t, k, step.SetUp{VF: a, Netns: podNetns, Up: true}, step.Unbind{VF: b}) }, a, true},
	} {
		c.change()
		for _, v := range []vf.PCIAddr{a, b} {
			l := podLink(t, k, v)
			if l == nil {
				continue // it has no driver
			}
			if l.Bond.Active != (v == c.sends) || l.Bond.Link.Carrier != c.carrier {
				t.Errorf("%s: VF %s sends: %t, and the bond has carrier %t", c.what, v, l.Bond.Active, l.Bond.Link.Carrier)
			}
			if v == c.sends && l.Bond.Link.MAC != l.MAC {
				t.Errorf("%s: the bond has %s, and its member %s", c.what, l.Bond.Link.MAC, l.MAC)
			}
		}
	}
	if err := k.Activate(b); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("a VF in no bond: %v", err)
	}
}

// TestBondsThatStay: the bond of an AddBond that was cut short has its mark, so that DelBond
// removes it. A bond without members gives way to a new one, and one with members does not.
func TestBondsThatStay(t *testing.T) {
	k, _, v, _ := inPod(t)
	must(t, k.CutAddBond(podBond(vf.BondActiveBackup, 0)))
	if s := k.String(); !strings.Contains(s, `bond "/run/netns/c1" bond0 of c1/1 (no alias) active-backup members []`) {
		t.Errorf("no half bond in %s", s)
	}
	if err := k.CutAddBond(step.AddBond{Netns: "/gone", Name: "bond0"}); !errors.Is(err, vf.ErrNetnsGone) {
		t.Errorf("in a netns that is gone: %v", err)
	}
	doSteps(t, k, step.DelBond{Netns: podNetns, Name: "bond0", Mark: "c1/1"})
	if s := k.String(); strings.Contains(s, "bond0") {
		t.Errorf("after DelBond: %s", s)
	}
	doSteps(t, k, podBond(vf.BondActiveBackup, 0), podBond(vf.BondActiveBackup, 4000), step.Enslave{VF: v, Netns: podNetns, Bond: "bond0"})
	if got := podLink(t, k, v).Bond.Link.MTU; got != 4000 || strings.Count(k.String(), "bond0 of") != 1 {
		t.Errorf("two bonds of one name, of MTU %d: %s", got, k)
	}
	if err := k.Do(t.Context(), podBond(vf.BondActiveBackup, 0)); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("in place of a bond with members: %v", err)
	}
	k.DropEmptyBonds()
	if podLink(t, k, v).Bond == nil {
		t.Error("a bond with a member was removed")
	}
	doSteps(t, k, step.Move{VF: v, From: podNetns, Name: "enp1s0v1"}) // its membership ends
	k.DropEmptyBonds()
	if s := k.String(); strings.Contains(s, "bond0") {
		t.Errorf("after its last member left: %s", s)
	}
}

// TestBondThatThePodRenames: steps find a bond under another name by their VF, as kernel.onDevice
// and kernel.findBonds do. kernel.TestLabBondThatThePodRenames has the same steps.
func TestBondThatThePodRenames(t *testing.T) {
	for _, strip := range []bool{false, true} {
		k, _, v, host := inPod(t)
		doSteps(t, k, podBond(vf.BondActiveBackup, 0),
			step.Enslave{VF: v, Netns: podNetns, Bond: "bond0"})
		must(t, k.RenameBond(v, "mine", strip))
		if b := podLink(t, k, v).Bond; b.Link.Name != "mine" || (b.Mark == "") != strip {
			t.Errorf("strip %t: %s of %q", strip, b.Link.Name, b.Mark)
		}
		doSteps(t, k, step.SetUp{VF: v, Netns: podNetns, Bond: "bond0", Up: true})
		if !podLink(t, k, v).Bond.Link.Up {
			t.Errorf("strip %t: the step did not find the bond", strip)
		}
		other := step.DelBond{VF: v, Netns: podNetns, Name: "bond0", Mark: "c1/2"}
		if strip { // a bond without a mark is of the lease of each member
			other.VF = host
		}
		if doSteps(t, k, other); podLink(t, k, v).Bond == nil {
			t.Errorf("strip %t: %s removed the bond of another lease", strip, other)
		}
		doSteps(t, k, step.DelBond{VF: v, Netns: podNetns, Name: "bond0", Mark: "c1/1"})
		if podLink(t, k, v).Bond != nil {
			t.Errorf("strip %t: the bond stays", strip)
		}
		if err := k.RenameBond(v, "mine", strip); !errors.Is(err, vf.ErrNotFound) {
			t.Errorf("a VF in no bond: %v", err)
		}
	}
}

// TestPrimaryThatLeaves: the primary member sends whenever it works. After it has left the bond,
// another one sends, and the bond has no primary member (__bond_release_one).
func TestPrimaryThatLeaves(t *testing.T) {
	k, a, b, _ := inPod(t)
	enslave := func(v vf.PCIAddr) step.Step {
		return step.Enslave{VF: v, Netns: podNetns, Bond: "bond0"}
	}
	doSteps(t, k, step.SetUp{VF: a, Netns: podNetns}, podBond(vf.BondActiveBackup, 0),
		enslave(a), enslave(b), step.SetBondPrimary{VF: b, Netns: podNetns, Bond: "bond0"})
	if l := podLink(t, k, b); !l.Bond.Active || !l.Bond.Primary {
		t.Errorf("the primary member: %+v", l.Bond)
	}
	doSteps(t, k, step.Move{VF: b, From: podNetns, Name: "enp1s0v1"})
	if l := podLink(t, k, a); !l.Bond.Active || podLink(t, k, b).Bond != nil {
		t.Errorf("after it left, the other one: %+v", l.Bond)
	}
	doSteps(t, k, step.Move{VF: b, To: podNetns, Name: "net2"}, enslave(b))
	if l := podLink(t, k, b); l.Bond.Active || l.Bond.Primary {
		t.Errorf("back in the bond, it is as others: %+v", l.Bond)
	}
}
