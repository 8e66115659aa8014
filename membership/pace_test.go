package membership

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/vf"
)

// churn is a member of whose VFs a test says who has them, and a clock.
type churn struct {
	*testing.T
	m     *Member
	c     *fakeCluster
	now   time.Time
	owner string
	more  func(*api.NodeStatus)
}

func newChurn(t *testing.T) *churn {
	t.Helper()
	m, c := joined(t)
	w := &churn{T: t, m: m, c: c, now: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC), more: func(*api.NodeStatus) {}}
	m.Status = func(context.Context) (api.NodeStatus, error) {
		n := api.NodeStatus{Ready: true, PFs: []api.PF{{Name: "enp1s0"}}, VFs: []api.VF{{Name: "enp1s0#0", Phase: "free"}}, Pools: []api.Pool{{Name: "x/a"}}}
		n.PFs[0].VFs.Total, n.PFs[0].VFs.Free, n.Pools[0].VFs.Total, n.Pools[0].VFs.Free = 1, 1, 1, 1
		if w.owner != "" {
			n.VFs[0].Phase, n.VFs[0].Owner = "attached", &vf.Owner{Kind: vf.OwnerPod, Name: w.owner}
			n.PFs[0].VFs.Free, n.PFs[0].VFs.Used, n.Pools[0].VFs.Free = 0, 1, 0
		}
		w.more(&n)
		return n, nil
	}
	m.readSpec()
	m.readPools()
	w.pass(time.Second)
	if w.writes() != 1 {
		t.Fatalf("the first state is written %d times", w.writes())
	}
	return w
}

// pass lets time pass, in which the member tries to write every writeInterval.
func (w *churn) pass(d time.Duration) {
	w.Helper()
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(writeInterval) {
		w.m.tryWrite(w.Context(), w.now)
	}
}

func (w *churn) writes() int { w.c.mu.Lock(); defer w.c.mu.Unlock(); return len(w.c.written) }

// since returns how often the state was written since the last call.
func (w *churn) since(before *int) int {
	n := w.writes() - *before
	*before = w.writes()
	return n
}

// 100 pods come and go on a node as in "make demo-k8s PODS=100": one each 13 s, which runs
// for 5 s. Their 200 changes are a few writes, and the last one is written soon.
func TestAttachesShareAWrite(t *testing.T) {
	w := newChurn(t)
	for i := range 100 {
		w.owner = fmt.Sprintf("d/pod%d", i)
		w.pass(5 * time.Second)
		w.owner = ""
		w.pass(8 * time.Second)
	}
	t.Logf("%.2f writes of the NodeState an attach", float64(w.writes())/100)
	if n := w.writes(); n > 26 {
		t.Errorf("100 attaches are %d writes of the NodeState, want 26 at most", n)
	}
	w.owner = "d/last"
	w.pass(15 * time.Second)
	if last := w.c.written[w.writes()-1]; last.VFs[0].Owner == nil || last.VFs[0].Owner.Name != "d/last" {
		t.Errorf("when it is quiet the last state is not written: %+v", last.VFs)
	}
}

// After a quiet time one attach is written within seconds, although the NodeState was looked
// at again meanwhile.
func TestAttachOnAQuietNode(t *testing.T) {
	w := newChurn(t)
	w.pass(time.Minute)
	w.m.written = nil // as keepState does it after idleInterval
	w.pass(writeInterval)
	before := w.writes()
	w.owner = "d/a"
	w.pass(7 * time.Second)
	if n := w.since(&before); n != 1 {
		t.Errorf("written %d times", n)
	}
}

// Any other news is written at once, also between attaches; so is everything that an attach
// waits for, and what a PF waits for whose VFs have to be free.
func TestOtherNewsDoNotWait(t *testing.T) {
	for name, change := range map[string]func(*churn){
		"a problem": func(w *churn) {
			w.more = func(n *api.NodeStatus) { n.Problems = []api.Problem{{Object: "PF", Reason: "gone"}} }
		},
		"a quarantine":    func(w *churn) { w.more = func(n *api.NodeStatus) { n.PFs[0].VFs.Quarantined = 1 } },
		"another VF":      func(w *churn) { w.more = func(n *api.NodeStatus) { n.Pools[0].VFs.Total = 2 } },
		"a PF that waits": func(w *churn) { w.more = func(n *api.NodeStatus) { n.PFs[0].WantedVFs = new(int) } },
		"an attach":       func(w *churn) { w.m.hurry = true },
	} {
		w := newChurn(t)
		w.owner = "d/a"
		w.pass(writeInterval)
		before := w.writes()
		change(w)
		w.pass(writeInterval)
		if n := w.since(&before); n != 1 {
			t.Errorf("%s: written %d times at once", name, n)
		}
		w.owner = ""
		w.pass(writeInterval)
		if n := w.since(&before); n != 0 && name != "a PF that waits" {
			t.Errorf("%s: the next attach is written %d times at once", name, n)
		}
	}
}

// The controller hears of used addresses before the node's blocks run out.
func TestUsedAddressesDoNotWait(t *testing.T) {
	w := newChurn(t)
	w.c.pools = []*v1alpha1.AddressPool{{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.AddressPoolSpec{Network: "n",
		Blocks: []v1alpha1.AddressBlock{{Node: "n1", First: "10.0.0.0", Last: "10.0.0.7"}}}}}
	w.m.readPools()
	used := func(n int64) *v1alpha1.NodeStateStatus {
		return &v1alpha1.NodeStateStatus{AddressRequests: []v1alpha1.AddressRequest{{Network: "n", Used: n}}}
	}
	for _, tc := range []struct {
		before, now int64
		want        bool
	}{{0, 3, false}, {0, 4, true}, {4, 5, false}, {4, 6, true}, {6, 6, false}, {6, 2, false}, {8, 9, true}} {
		if got := w.m.needsBlocks(used(tc.before), used(tc.now)); got != tc.want {
			t.Errorf("%d of 8 addresses were used, now %d: %v", tc.before, tc.now, got)
		}
	}
	if own := w.m.book.Of("n", vf.Owner{}); len(own.Runs) != 1 || own.Runs[0].First != netip.MustParseAddr("10.0.0.0") {
		t.Errorf("%+v", own)
	}
}
