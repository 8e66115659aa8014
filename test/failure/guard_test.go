package failure

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// meddlings are all ways in which the guard of a pod may change outside Culvert.
var meddlings = map[string]func(*vf.Guard){
	"removed":         nil,
	"altered":         func(g *vf.Guard) { g.Altered = true },
	"of another mode": func(g *vf.Guard) { g.Mode = vf.GuardARP },
	"of another MAC":  func(g *vf.Guard) { g.MAC[5] ^= 1 },
	"of one address more": func(g *vf.Guard) {
		g.Addresses = append(g.Addresses, netip.MustParseAddr("10.1.0.1"))
	},
}

// P12: CHECK says that a guard is missing or altered, the next look at drift sets it again, and
// an event says so. With the pool's "drift: report" there is only the event.
func TestMissingGuard(t *testing.T) {
	for name, change := range meddlings {
		for _, policy := range []desired.Drift{desired.MendDrift, desired.ReportDrift} {
			w := made(t, fake.IGB, fastDir(t))
			for i := range w.spec.Pools {
				w.spec.Pools[i].Drift = policy
			}
			w.node.SetSpec(w.spec)
			must(w, w.add(podA))
			config := withResult(w.config(podA, "CHECK"))
			must(w, w.call("CHECK", podA, config))
			w.k.MeddleGuard(w.heldBy("a"), netnsOf("a"), change)
			err := w.call("CHECK", podA, config)
			if err == nil || !strings.Contains(failed(t, err).Msg, ": guard is ") {
				t.Errorf("guard %s: CHECK answers %v", name, err)
			}
			w.expect["a"] = meddled
			w.pass()
			w.pass()
			err = w.call("CHECK", podA, config)
			if (err == nil) != (policy == desired.MendDrift) {
				t.Errorf("guard %s, drift %s: CHECK answers %v after a pass", name, policy, err)
			}
			want := map[desired.Drift]string{desired.MendDrift: "DriftMended", desired.ReportDrift: "Drifted"}[policy]
			if got := w.events("Drift"); len(got) != 1 || got[0].Reason != want || !strings.Contains(got[0].Text, "guard is ") {
				t.Errorf("guard %s, drift %s: events %v", name, policy, got)
			}
			w.asNew()
			w.close()
		}
	}
}
