package fake

import (
	"errors"
	"testing"

	"github.com/culvert-net/culvert/kernel/step"
	"github.com/culvert-net/culvert/vf"
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
