package fake

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// TestUses has the uses that kernel.Uses finds, with its texts. An interface that is only up or
// promiscuous is not used (I2).
func TestUses(t *testing.T) {
	qemu := vf.Process{PID: 7, Name: "qemu"}
	for _, c := range []struct {
		name  string
		begin func(k *Kernel, v vf.PCIAddr)
		want  vf.Use
	}{
		{"no more than made", func(*Kernel, vf.PCIAddr) {}, vf.Use{}},
		{"up and promiscuous", func(k *Kernel, v vf.PCIAddr) {
			doSteps(t, k, step.SetUp{VF: v, Up: true})
			must(t, k.Meddle(v, func(s *vf.State) { s.Link.Promisc = true }))
		}, vf.Use{}},
		{"an address", func(k *Kernel, v vf.PCIAddr) {
			doSteps(t, k, step.AddAddress{VF: v, Address: netip.MustParsePrefix("10.9.0.1/24")})
		}, vf.Use{How: "the host uses it as enp1s0v0 with address 10.9.0.1/24"}},
		{"a member of a bridge", func(k *Kernel, v vf.PCIAddr) {
			must(t, k.SetAttribute(v, master, "br0"))
		}, vf.Use{How: "the host uses it as enp1s0v0, a part of another interface"}},
		{"in a pod", func(k *Kernel, v vf.PCIAddr) {
			k.AddNetns(podNetns)
			doSteps(t, k, step.Move{VF: v, To: podNetns, Name: "net1"})
		}, vf.Use{How: "its interface is in another network namespace"}},
		{"below a VLAN", func(k *Kernel, v vf.PCIAddr) { must(t, k.Occupy(v, "below tag")) },
			vf.Use{How: "below tag"}},
		{"no longer below a VLAN", func(k *Kernel, v vf.PCIAddr) {
			must(t, k.Occupy(v, "below tag"), k.Occupy(v, ""))
		}, vf.Use{}},
		{"open", func(k *Kernel, v vf.PCIAddr) {
			doSteps(t, k, step.Unbind{VF: v}, step.Bind{VF: v, Driver: vf.DriverVFIO})
			must(t, k.Open(v, qemu))
		}, vf.Use{By: qemu}},
		{"with another driver, which nothing uses", func(k *Kernel, v vf.PCIAddr) {
			must(t, k.Occupy(v, "below tag")) // a VLAN ends with its interface
			doSteps(t, k, step.Unbind{VF: v}, step.Bind{VF: v, Driver: vf.DriverVFIO})
		}, vf.Use{}},
	} {
		k, pf := made(t, IGB, 2)
		v, other := pf.VFs[0].PCI, pf.VFs[1].PCI
		c.begin(k, v)
		want := map[vf.PCIAddr]vf.Use{}
		if c.want != (vf.Use{}) {
			want[v] = c.want
		}
		got, err := k.Uses(t.Context(), v, other, vf.PCIAddr{Bus: 99})
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v -want +got:\n%s", c.name, err, diff)
		}
	}
}

// TestOccupyWakes: the host's network begins to use a VF, which wakes a watcher as a new link does.
func TestOccupyWakes(t *testing.T) {
	k, pf := made(t, IGB, 1)
	wake, err := k.Watch(t.Context())
	must(t, err, k.Occupy(pf.VFs[0].PCI, "below tag"))
	select {
	case <-wake:
	default:
		t.Error("it does not wake")
	}
	if err := k.Occupy(vf.PCIAddr{Bus: 99}, "below tag"); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("no VF: %v", err)
	}
}
