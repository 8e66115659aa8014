package conduct

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/agent"
)

// outsideStation is a virtual machine of an ESXi host, with an interface that the host makes and a VF.
func outsideStation(name, address, vfOf string, index int) *Station {
	return &Station{
		Site: Site{Name: "host", Machine: bench.Machine{Name: name}, Ends: []bench.End{
			{Interface: "ens192", Driver: "vmxnet3"}, {Interface: "ens224", Driver: "iavf", Address: netip.MustParseAddr(address)},
		}},
		outside: vfOf, outsideIndex: index,
	}
}

// TestOutsideVF: virtual machines of ESXi hosts do not see the ports of their VFs, so the order names
// them. These decide how far apart two virtual machines are, and so which of m7 and m8 takes the path.
func TestOutsideVF(t *testing.T) {
	place := func(to string) string {
		a, b := outsideStation("vm1", "192.0.2.1", "esxi01/vmnic2", 0), outsideStation("vm2", "192.0.2.2", to, 1)
		for _, s := range []*Station{a, b} {
			if err := s.nameOutsideVF(); err != nil {
				t.Fatal(err)
			}
		}
		a.Routes = map[netip.Addr]agent.Route{b.Ends[1].Address: {Source: a.Ends[1].Address}}
		b.Routes = map[netip.Addr]agent.Route{a.Ends[1].Address: {Source: b.Ends[1].Address}}
		var all []string
		for _, p := range Paths(a.Site, b.Site) {
			all = append(all, Title(p))
		}
		return strings.Join(all, "; ")
	}
	for to, want := range map[string]string{
		"esxi01/vmnic2": "node-node, VF, same PF", "esxi01/vmnic3": "node-node, VF, other PF",
		"esxi02/vmnic2": "node-node, VF, other node", "": "node-node, VF, other node",
	} {
		if got := place(to); got != want {
			t.Errorf("to %q: %s, want %s", to, got, want)
		}
	}
	s := outsideStation("vm1", "192.0.2.1", "esxi01/vmnic2", 3)
	if err := s.nameOutsideVF(); err != nil {
		t.Error(err)
	}
	if e := s.Ends[0]; e.PF != "" || e.VF != nil || *s.Ends[1].VF != 3 {
		t.Errorf("%s of %s; ens192 is on %q", s.Ends[1].Interface, s.Ends[1].PF, e.PF)
	}
	s = outsideStation("vm1", "192.0.2.1", "esxi01/vmnic2", 0)
	s.Ends = append(s.Ends, bench.End{Interface: "ens256", Driver: "ixgbevf"})
	if err := s.nameOutsideVF(); err == nil || !strings.Contains(err.Error(), "both ens224 and ens256 are VFs, and vf= names one") {
		t.Error(err)
	}
	s.Ends = s.Ends[:1]
	if err := s.nameOutsideVF(); err == nil || !strings.Contains(err.Error(), "no interface has a driver of VFs, so esxi01/vmnic2 is not here") {
		t.Error(err)
	}
}
