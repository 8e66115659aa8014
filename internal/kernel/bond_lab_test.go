package kernel_test

import (
	"errors"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// The kernel's bond behaves as the bond of the fake kernel. Members join while they are down, and
// get the MTU of the bond. The bond has the MAC address of the member that sends. When it is
// removed, the members have their own MTU again.
func TestLabBond(t *testing.T) {
	n := labNode(t)
	a, b, pod := n.bound(0, 0), n.bound(1, 0), n.netns("bond")
	read := func(pci vf.PCIAddr, path string) vf.State {
		st, err := n.VF(n.context(), pci, path)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	want := vf.Bond{Links: 2, Mode: vf.BondActiveBackup, AntiAffinity: vf.ApartPF}
	n.do(step.AddBond{Netns: pod, Name: "net1", Mark: "c1/0", Bond: want})
	n.do(step.AddBond{Netns: pod, Name: "net1", Mark: "c1/1", Bond: want, MTU: 1400}) // the empty one gives way
	for _, m := range []struct {
		vf   vf.State
		name string
	}{{a, "net1a"}, {b, "net1b"}} {
		n.do(step.Move{VF: m.vf.PCI, To: pod, Name: m.name}, step.Enslave{VF: m.vf.PCI, Netns: pod, Bond: "net1"})
		n.do(step.Enslave{VF: m.vf.PCI, Netns: pod, Bond: "net1"}) // again: nothing to do
	}
	if err := n.Do(n.context(), step.AddBond{Netns: pod, Name: "net1", Mark: "c1/2", Bond: want}); !errors.Is(err, unix.EEXIST) {
		t.Errorf("a second bond of that name: %v", err)
	}
	n.do(
		step.SetBondPrimary{VF: b.PCI, Netns: pod, Bond: "net1"},
		step.SetUp{VF: a.PCI, Netns: pod, Bond: "net1", Up: true},
		step.AddAddress{VF: a.PCI, Netns: pod, Bond: "net1", Address: prefix("10.56.0.10/24")},
		step.AddAddress{VF: a.PCI, Netns: pod, Bond: "net1", Address: prefix("fd00::10/64")},
		step.AddRoute{VF: a.PCI, Netns: pod, Bond: "net1", Route: vf.Route{Dst: prefix("10.20.0.0/16")}},
		step.Announce{VF: a.PCI, Netns: pod, Bond: "net1", Addresses: []netip.Prefix{prefix("10.56.0.10/24")}},
	)
	for _, v := range []vf.State{a, b} {
		st := read(v.PCI, pod)
		if st.Link == nil || st.Link.Bond == nil {
			t.Fatalf("VF %s is in no bond: %+v", v.PCI, st.Link)
		}
		if d := want.Diff("net1", nil, st.Link.Bond); len(d) > 0 {
			t.Errorf("%s", vf.Differences(d))
		}
		bond := st.Link.Bond
		t.Logf("%s: %+v", st.Link.Name, *bond)
		if !st.Link.Up || st.Link.MTU != 1400 || bond.Link.MTU != 1400 || len(bond.Link.Addrs) != 2 || len(bond.Link.Routes) != 1 || len(st.Link.Addrs) != 0 {
			t.Errorf("link %+v, bond %+v", *st.Link, bond.Link)
		}
		if bond.Mark != "c1/1" || bond.Primary != (v.PCI == b.PCI) || bond.Active && bond.Link.MAC != st.Link.MAC {
			t.Errorf("%+v of a member with MAC address %s", *bond, st.Link.MAC)
		}
	}
	active := func() (out vf.PCIAddr) {
		for _, v := range []vf.State{a, b} {
			if st := read(v.PCI, pod); st.Link.Bond.Active {
				out = v.PCI
				if st.Link.Bond.Link.MAC != st.Link.MAC {
					t.Errorf("the bond has MAC address %s, and its active member %s", st.Link.Bond.Link.MAC, st.Link.MAC)
				}
			}
		}
		return out
	}
	n.awaitActive(active, b.PCI)
	// The fake kernel does the same: fake.TestSetBondActive.
	for _, s := range []struct {
		to   vf.State
		from []vf.PCIAddr
		want vf.State
		err  error
	}{
		{a, nil, b, vf.ErrUnchanged},
		{a, []vf.PCIAddr{a.PCI}, b, vf.ErrUnchanged},
		{a, []vf.PCIAddr{b.PCI}, a, nil},
		{b, []vf.PCIAddr{b.PCI}, a, vf.ErrUnchanged},
		{b, []vf.PCIAddr{a.PCI}, b, nil},
		{n.vf(0, 1, ""), []vf.PCIAddr{b.PCI}, b, vf.ErrNotFound},
	} {
		err := n.Do(n.context(), step.SetBondActive{VF: s.to.PCI, From: s.from, Netns: pod, Bond: "net1"})
		if got := active(); got != s.want.PCI || !errors.Is(err, s.err) {
			t.Errorf("to VF %s from %v: VF %s sends, want VF %s; %v, want %v", s.to.PCI, s.from, got, s.want.PCI, err, s.err)
		}
	}
	n.do(step.DelBond{Netns: pod, Name: "net1", Mark: "c1/2"}) // the mark of another lease
	if st := read(a.PCI, pod); st.Link == nil || st.Link.Bond == nil {
		t.Error("a bond with another mark was removed")
	}
	n.do(step.DelBond{Netns: pod, Name: "net1", Mark: "c1/1"}, step.DelBond{Netns: pod, Name: "net1", Mark: "c1/1"})
	for _, v := range []vf.State{a, b} {
		st := read(v.PCI, pod)
		if st.Link == nil || st.Link.Bond != nil || st.Link.Up || st.Link.MTU != v.Link.MTU || st.Link.MAC != v.Link.MAC {
			t.Errorf("after the bond: %+v", st.Link)
		}
		n.do(step.Move{VF: v.PCI, From: pod, Name: v.Link.Name})
		if d := vf.BaselineOf(v).Diff(read(v.PCI, "")); len(d) > 0 {
			t.Errorf("VF %s back on the host: %s", v.PCI, vf.Differences(d))
		}
	}
	n.do(step.DelBond{Netns: "/run/netns/gone", Name: "net1", Mark: "c1/1"})
}

// A pod renames its bond, and may remove or change its mark. The bond is found by a member: it can be
// moved, and is removed with its lease. A bond of another lease stays.
func TestLabBondThatThePodRenames(t *testing.T) {
	for name, change := range map[string][]string{
		"another name":            nil,
		"another name and alias":  {"alias", "uplink"},
		"another name and no one": {"alias", ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := labNode(t)
			a, b, pod := n.bound(0, 0), n.bound(1, 0), n.netns("renamed")
			ip := func(args ...string) {
				t.Helper()
				if out, err := exec.Command("ip", append([]string{"-n", filepath.Base(pod)}, args...)...).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			n.do(step.AddBond{Netns: pod, Name: "net1", Mark: "c1/1", Bond: vf.Bond{Links: 2, Mode: vf.BondActiveBackup, AntiAffinity: vf.ApartPF}})
			for i, v := range []vf.State{a, b} {
				n.do(step.Move{VF: v.PCI, To: pod, Name: vf.MemberName("net1", i)}, step.Enslave{VF: v.PCI, Netns: pod, Bond: "net1"})
			}
			n.do(step.SetUp{VF: a.PCI, Netns: pod, Bond: "net1", Up: true})
			ip("link", "set", "net1", "down")
			ip("link", "set", "net1", "name", "mine")
			if change != nil {
				ip(append([]string{"link", "set", "mine"}, change...)...)
			}
			n.do(step.SetUp{VF: a.PCI, Netns: pod, Bond: "net1", Up: true})
			ip("link", "add", "name", "net1", "type", "bond") // the pod's own
			if err := n.Do(n.context(), step.SetBondActive{VF: b.PCI, From: []vf.PCIAddr{a.PCI}, Netns: pod, Bond: "net1"}); err != nil && !errors.Is(err, vf.ErrUnchanged) {
				t.Errorf("the bond cannot be moved: %v", err)
			}
			isIn := func() bool {
				st, err := n.VF(n.context(), a.PCI, pod)
				return err == nil && st.Link != nil && st.Link.Bond != nil
			}
			if n.do(step.DelBond{Netns: pod, Name: "net1", Mark: "c1/2"}); !isIn() {
				t.Error("DelBond of another lease removed the bond")
			}
			if n.do(step.DelBond{VF: a.PCI, Netns: pod, Name: "net1", Mark: "c1/1"}); isIn() {
				t.Error("DelBond left the bond")
			}
			ip("link", "show", "net1")
			for _, v := range []vf.State{a, b} {
				n.do(step.Move{VF: v.PCI, From: pod, Name: v.Link.Name})
			}
		})
	}
}

// A culvertd that is killed within AddBond leaves a bond without an alias. DelBond removes the bond
// of its lease, and a later AddBond removes such a bond of any lease. A bond of the pod stays.
func TestLabBondThatWasCutShort(t *testing.T) {
	n := labNode(t)
	pod := n.netns("cut")
	ip := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("ip", append([]string{"-n", filepath.Base(pod)}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	addHalf := func(group uint32) {
		t.Helper()
		ip("link", "add", "name", "net1", "group", strconv.FormatUint(uint64(group), 10), "type", "bond")
	}
	add := func(mark string) error {
		return n.Do(n.context(), step.AddBond{Netns: pod, Name: "net1", Mark: mark, Bond: vf.Bond{Links: 2, Mode: vf.BondActiveBackup, AntiAffinity: vf.ApartPF}})
	}
	isThere := func() bool { return strings.Contains(ip("link", "show"), "net1") }
	addHalf(kernel.BondGroup("c1/1"))
	if n.do(step.DelBond{Netns: pod, Name: "net1", Mark: "c1/2"}); !isThere() {
		t.Error("DelBond of another lease removed the bond")
	}
	if n.do(step.DelBond{Netns: pod, Name: "net1", Mark: "c1/1"}); isThere() {
		t.Fatal("DelBond left the bond")
	}
	addHalf(kernel.BondGroup("c1/1"))
	if err := add("c1/2"); err != nil {
		t.Fatal(err)
	}
	if out := ip("link", "show", "net1"); !strings.Contains(out, "group default") || !strings.Contains(out, "alias culvert c1/2") {
		t.Error(out)
	}
	if n.do(step.DelBond{Netns: pod, Name: "net1", Mark: "c1/2"}); isThere() {
		t.Fatal("DelBond left the bond")
	}
	addHalf(7)
	if n.do(step.DelBond{Netns: pod, Name: "net1", Mark: "c1/1"}); !isThere() {
		t.Error("DelBond removed a bond of the pod")
	}
	if err := add("c1/1"); !errors.Is(err, unix.EEXIST) {
		t.Errorf("AddBond with the name of a bond of the pod: %v", err)
	}
}

// awaitActive waits until the kernel, which looks at the carrier every 100 ms, has chosen a member.
func (n *node) awaitActive(active func() vf.PCIAddr, want vf.PCIAddr) {
	n.t.Helper()
	for ctx := n.context(); active() != want; {
		if ctx.Err() != nil {
			n.t.Fatalf("VF %s sends, want VF %s", active(), want)
		}
	}
}

// Carrier follows a PF that goes down and comes up, without an event.
func TestLabCarrier(t *testing.T) {
	n := labNode(t)
	pf := n.pfs[0]
	read := func(want bool) {
		t.Helper()
		if got, err := n.Carrier(pf.PCI); err != nil || got != want {
			t.Errorf("carrier %t, %v; want %t", got, err, want)
		}
	}
	read(true)
	if out, err := exec.Command("ip", "link", "set", pf.Name, "down").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	read(false)
	n.do(step.SetPFUp{PF: pf.PCI}, step.WaitCarrier{PF: pf.PCI})
	read(true)
	if got, err := n.Carrier(vf.PCIAddr{Bus: 0xfe}); got || err != nil {
		t.Errorf("a PF that is not there: %t, %v", got, err)
	}
}
