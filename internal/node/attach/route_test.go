package attach_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// I6: if another interface of the netns already has an IPv6 route, that route stays, and the lease
// lacks it. A new IPv4 route takes precedence over the existing ones, as with the CNI project's
// plugins.
func TestI6RouteOfAnotherInterface(t *testing.T) {
	k, n := newNode(t)
	dual := func() attach.Request {
		req := everything(t)
		req.IPAM.Routes = append(req.IPAM.Routes, vf.Route{Dst: netip.MustParsePrefix("fd09::/16")})
		return req
	}
	first, err := n.Engine.Attach(t.Context(), dual())
	if err != nil {
		t.Fatal(err)
	}
	req := dual()
	req.Network, req.Spec.MAC = "green", nil
	req.Owner.Interface, req.Spec.Interface = "net2", "net2"
	second, err := n.Engine.Attach(t.Context(), req)
	if err != nil {
		t.Fatal("a second network with a default route:", err)
	}
	for i, rec := range []journal.Record{first, second} {
		var is6 []bool
		for _, r := range rec.Lease.Wanted.Routes {
			is6 = append(is6, r.Dst.Addr().Is6())
		}
		if want := [][]bool{{false, false, true}, {false, false}}[i]; !slices.Equal(is6, want) {
			t.Errorf("lease %d has the routes %v", i, rec.Lease.Wanted.Routes)
		}
		if err := n.Engine.Check(t.Context(), rec.Lease.Owner, attach.Request{}); err != nil {
			t.Error(err)
		}
		st, err := k.VF(t.Context(), rec.PCI, podNetns)
		if err != nil {
			t.Fatal(err)
		}
		if len(st.Link.Routes) != len(rec.Lease.Wanted.Routes) {
			t.Errorf("interface %d has the routes %v", i, st.Link.Routes)
		}
	}
}
