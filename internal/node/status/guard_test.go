package status

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// A guard is called enforced only where its rules were read in the pod and no container passes it.
func TestGuard(t *testing.T) {
	v := igb(0, 1).VFs[0]
	r := free(v)
	r.Phase = vf.PhaseAttached
	r.Lease = journal.Lease{
		Netns: "/run/netns/a", Power: vf.PowerNone,
		Wanted: vf.Spec{Guard: vf.GuardIP, Interface: "net1", Addresses: []vf.Address{{Prefix: netip.MustParsePrefix("10.1.0.2/24")}}},
	}
	whole := r.Lease.Wanted.GuardOver(r.Baseline)
	for name, tt := range map[string]struct {
		change func(*journal.Record, *vf.State)
		want   vf.Degree
		reason string
	}{
		"all is well":         {func(*journal.Record, *vf.State) {}, vf.GuardEnforced, ""},
		"NET_RAW":             {func(r *journal.Record, _ *vf.State) { r.Lease.Power = vf.PowerRaw }, vf.GuardPartly, "NET_RAW"},
		"NET_ADMIN":           {func(r *journal.Record, _ *vf.State) { r.Lease.Power = vf.PowerAdmin }, vf.GuardNot, "NET_ADMIN"},
		"without a cluster":   {func(r *journal.Record, _ *vf.State) { r.Lease.Power = "" }, vf.GuardPartly, "does not know"},
		"an RDMA device":      {func(_ *journal.Record, st *vf.State) { st.RDMA = &vf.RDMA{Device: "mlx5_2"} }, vf.GuardPartly, "RDMA"},
		"removed":             {func(_ *journal.Record, st *vf.State) { st.Link.Guard = &vf.Guard{} }, vf.GuardNot, "missing"},
		"not read":            {func(_ *journal.Record, st *vf.State) { st.Link.Guard = nil }, vf.GuardNot, "cannot read"},
		"a netns without key": {func(_ *journal.Record, st *vf.State) { st.Link = nil }, vf.GuardNot, "cannot read"},
	} {
		r, st, link := r, v, *v.Link
		link.Netns, link.Guard = r.Lease.Netns, &whole
		st.Link = &link
		tt.change(&r, &st)
		g := guardOf(r, st)
		if g == nil || g.Mode != vf.GuardIP || g.Degree != tt.want || !strings.Contains(g.Reason, tt.reason) || (g.Reason == "") != (tt.reason == "") {
			t.Errorf("%s: %+v, not %s (%s)", name, g, tt.want, tt.reason)
		}
	}
	r.Phase = vf.PhaseReleasing
	if g := guardOf(r, v); g != nil {
		t.Errorf("a VF that is being released: %+v", g)
	}
}
