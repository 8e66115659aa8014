package status

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// A pod with NET_ADMIN may give its interfaces as many addresses and routes as it likes, and take away
// those of its lease. The status lists the first of each, and counts the others. An address that is
// not listed is still no difference.
func TestI7StatusOfManyAddresses(t *testing.T) {
	const many = 4096
	in := node(t)
	r := &in.Records[0]
	st := in.PFs[2].VFs[0]
	link := *in.Seen[r.ID].Link
	link.Bond = &vf.BondState{}
	for i := range many {
		a := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 32)
		link.Bond.Link.Addrs = append(link.Bond.Link.Addrs, a)
		link.Tentative, link.Duplicates = append(link.Tentative, a), append(link.Duplicates, a)
		link.Routes = append(link.Routes, vf.Route{Dst: a})
	}
	link.Addrs = append(link.Bond.Link.Addrs, link.Addrs...) // the lease's own is the last
	link.MoreAddrs = 10
	st.Link = &link
	in.Seen[r.ID] = See(*r, st)
	got := vfNamed(t, Assemble(in), "enp1s0f0#0")
	l := got.Link
	if len(l.Addrs) != mostAddresses || l.MoreAddrs != many+11-mostAddresses || len(l.Routes) != mostAddresses || l.MoreRoutes != many-mostAddresses {
		t.Errorf("%d and %d addresses, %d and %d routes", len(l.Addrs), l.MoreAddrs, len(l.Routes), l.MoreRoutes)
	}
	if b := l.Bond.Link; len(l.Tentative) != mostAddresses || len(l.Duplicates) != mostAddresses || len(b.Addrs) != mostAddresses || b.MoreAddrs != many-mostAddresses {
		t.Errorf("%d tentative, %d duplicates, %d and %d of the bond", len(l.Tentative), len(l.Duplicates), len(b.Addrs), b.MoreAddrs)
	}
	if len(link.Addrs) != many+1 || len(link.Bond.Link.Addrs) != many {
		t.Error("what was read is changed")
	}
	for _, d := range got.Differences {
		if d.Attribute == "address" {
			t.Errorf("%s: the interface has it", d)
		}
	}

	link.Addrs, link.Routes = nil, nil
	for i := range 40 {
		r.Lease.Wanted.Routes = append(r.Lease.Wanted.Routes, vf.Route{Dst: netip.MustParsePrefix(fmt.Sprintf("10.2.%d.0/24", i))})
		in.Users = map[vf.PCIAddr][]vf.Process{r.PCI: append(in.Users[r.PCI], vf.Process{PID: i, Name: "x"})}
	}
	in.Seen[r.ID] = See(*r, st)
	got = vfNamed(t, Assemble(in), "enp1s0f0#0")
	if len(got.Differences) != mostEntries || got.MoreDifferences < 40-mostEntries {
		t.Errorf("%d differences and %d more", len(got.Differences), got.MoreDifferences)
	}
	if len(got.OpenBy) != mostEntries || got.MoreOpenBy != 40-mostEntries {
		t.Errorf("%d processes and %d more", len(got.OpenBy), got.MoreOpenBy)
	}
}

// A VF without a record has no differences.
func TestSeeOfAnUnknownVF(t *testing.T) {
	if s := See(journal.Record{}, vf.State{}); s.Link != nil || len(s.Differences) > 0 {
		t.Errorf("%+v", s)
	}
}

func vfNamed(t *testing.T, st api.NodeStatus, name string) api.VF {
	t.Helper()
	for _, v := range st.VFs {
		if v.Name == name {
			return v
		}
	}
	t.Fatalf("no VF %s", name)
	return api.VF{}
}
