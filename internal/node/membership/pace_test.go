package membership

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// churn is a Member with a clock. The test sets the owners of its VFs.
type churn struct {
	*testing.T
	m      *Member
	c      *fakeCluster
	now    time.Time
	owners [40]string // of VFs
	beside bool       // another meta plugin calls Culvert for the pods
	more   func(*api.NodeStatus)
}

func newChurn(t *testing.T) *churn {
	t.Helper()
	m, c := joined(t)
	w := &churn{T: t, m: m, c: c, now: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC), more: func(*api.NodeStatus) {}}
	m.Status = func(context.Context) (api.NodeStatus, error) {
		n := api.NodeStatus{Ready: true, PFs: []api.PF{{PF: vf.PF{Name: "enp1s0"}}}, Pools: []api.Pool{{Name: "x/a"}}}
		pf, pool := &n.PFs[0].VFs, &n.Pools[0].VFs
		for i, owner := range &w.owners {
			v := api.VF{Name: fmt.Sprint("enp1s0#", i), Phase: "free"}
			pf.Total, pool.Total = pf.Total+1, pool.Total+1
			if owner == "" {
				pf.Free, pool.Free = pf.Free+1, pool.Free+1
			} else {
				v.Phase, v.Owner = "attached", &vf.Owner{Kind: vf.OwnerPod, Name: owner, UID: owner}
				v.Network, v.Warnings = "d/n", []string{"vlna 5: unknown key, ignored"}
				pf.Used++
			}
			n.VFs = append(n.VFs, v)
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

// attach gives a VF to a pod, whose Confirmation is written, unless another meta plugin asks.
func (w *churn) attach(vf int, pod string) {
	w.Helper()
	w.owners[vf] = pod
	if w.beside {
		return
	}
	err := w.m.Node.Ledger.Update(func(tx *journal.Tx) error {
		return tx.PutSandbox(journal.Sandbox{ID: pod, Namespace: "d", Pod: pod, Phase: journal.SandboxAdded})
	})
	if err != nil {
		w.Fatal(err)
	}
	w.c.mu.Lock()
	w.c.confirmed = w.now
	w.c.mu.Unlock()
}

// detach takes a VF back.
func (w *churn) detach(vf int) { w.owners[vf] = "" }

// pass lets time pass, in which the member tries to write every writeInterval.
func (w *churn) pass(d time.Duration) {
	w.Helper()
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(writeInterval) {
		w.m.tryWrite(w.Context(), w.now)
	}
}

// skip lets time pass in which nothing happens.
func (w *churn) skip(d time.Duration) {
	w.Helper()
	w.now = w.now.Add(d)
	w.m.tryWrite(w.Context(), w.now)
}

func (w *churn) writes() int { w.c.mu.Lock(); defer w.c.mu.Unlock(); return len(w.c.written) }

// since returns how often the state was written since the last call.
func (w *churn) since(before *int) int {
	n := w.writes() - *before
	*before = w.writes()
	return n
}

// requireCurrent requires that the last written NodeState has the present owners.
func (w *churn) requireCurrent() {
	w.Helper()
	last := w.c.written[w.writes()-1]
	for i, want := range &w.owners {
		got := ""
		if o := last.VFs[i].Owner; o != nil {
			got = o.Name
		}
		if got != want {
			w.Errorf("VF %d has owner %q in the last NodeState, want %q", i, got, want)
		}
	}
}

// 100 pods come and go on a node as in "make demo-k8s PODS=100": one each 13 s, which runs
// for 5 s. Their 200 changes are a few writes, and the last one is written soon.
func TestAttachesShareAWrite(t *testing.T) {
	w := newChurn(t)
	w.skip(time.Hour)
	before := w.writes()
	for i := range 100 {
		w.attach(0, fmt.Sprint("pod", i))
		w.pass(5 * time.Second)
		w.detach(0)
		w.pass(8 * time.Second)
	}
	w.attach(0, "last")
	w.pass(63 * time.Second)
	n := w.since(&before)
	t.Logf("%d NodeStates: %.2f writes an attach", n, 2+float64(n)/101)
	if n > 6 {
		t.Errorf("101 attaches are %d writes of the NodeState, want 6 at most", n)
	}
	w.requireCurrent()
}

// workload is a number of pods that start on one node, and the writes that they cause. A pod writes
// its network-status and an event of each of its VF networks (intake/pod TestWritesOfAnAttach).
type workload struct {
	name   string
	pods   []int         // the VF networks of each
	every  time.Duration // between the starts of two
	beside bool          // Multus writes network-status and events
	most   float64       // writes for each attach, without the write that shows the deletions
}

// The writes behind an attach stay at two or fewer on average where a tenth of the pods of a
// rollout have two VF networks, and always beside Multus.
func TestWritesOfWorkloads(t *testing.T) {
	pods := func(one, two int) []int { return append(slices.Repeat([]int{1}, one), slices.Repeat([]int{2}, two)...) }
	for _, load := range []workload{
		{"a lone pod", pods(1, 0), 0, false, 3},
		{"a lone pod of two networks", pods(0, 1), 0, false, 2},
		{"20 pods of a rollout", pods(20, 0), 2 * time.Second, false, 2.05},
		{"20 pods of a rollout, two of them with two networks", pods(18, 2), 2 * time.Second, false, 2},
		{"20 pods of a rollout, five of them with two networks", pods(15, 5), 2 * time.Second, false, 1.85},
		{"20 pods at once, as after a reboot", pods(20, 0), 0, false, 2.05},
		{"20 pods, one a minute", pods(20, 0), time.Minute, false, 2.3},
		{"two pods, as a node has of shared/manifests", pods(2, 0), time.Second, false, 2.5},
		{"a lone pod beside Multus", pods(1, 0), 0, true, 1},
		{"20 pods of a rollout beside Multus", pods(20, 0), 2 * time.Second, true, 0.35},
		{"20 pods, one a minute, beside Multus", pods(20, 0), time.Minute, true, 1},
	} {
		w := newChurn(t)
		w.beside = load.beside
		w.skip(time.Hour)
		before, attaches, others := w.writes(), 0, 0
		for i, networks := range load.pods {
			for range networks {
				w.attach(attaches, fmt.Sprint("pod", i))
				attaches++
			}
			if !load.beside {
				others += 1 + networks
			}
			w.pass(load.every)
		}
		w.pass(5 * time.Minute)
		states := w.since(&before)
		w.requireCurrent()
		for i := range attaches {
			w.detach(i)
		}
		w.pass(6 * time.Minute)
		w.requireCurrent()
		average := float64(others+states) / float64(attaches)
		t.Logf("%-55s %.2f writes an attach, %d of %d NodeStates; its deletion %d more", load.name, average, states, others+states, w.since(&before))
		if average > load.most+0.001 {
			t.Errorf("%s: %.2f writes an attach, want %.2f at most", load.name, average, load.most)
		}
	}
}

// After a quiet time one attach is written within seconds, although the NodeState was looked
// at again meanwhile.
func TestAttachOnAQuietNode(t *testing.T) {
	w := newChurn(t)
	w.skip(time.Hour)
	w.m.verify = true // as keepState does it after idleInterval
	before := w.writes()
	w.attach(0, "a")
	w.pass(9 * time.Second)
	if n := w.since(&before); n != 0 {
		t.Errorf("written %d times before others could share the write", n)
	}
	w.pass(6 * time.Second)
	if n := w.since(&before); n != 1 {
		t.Errorf("written %d times", n)
	}
}

// Beside another meta plugin the controller learns addresses by the NodeState alone, so the first
// attach is written at once, and those of the ten seconds after it together. A detach still waits.
func TestUnconfirmedAttachDoesNotWait(t *testing.T) {
	w := newChurn(t)
	w.skip(time.Hour)
	before := w.writes()
	w.beside = true
	w.attach(0, "theirs")
	w.pass(writeInterval)
	if n := w.since(&before); n != 1 {
		t.Errorf("the attach is written %d times at once", n)
	}
	w.attach(2, "second")
	w.pass(writeInterval)
	w.attach(3, "third")
	w.pass(writeInterval)
	if n := w.since(&before); n != 0 {
		t.Errorf("%d writes within ten seconds of the last", n)
	}
	w.pass(2 * writeInterval)
	if n := w.since(&before); n != 1 {
		t.Errorf("two attaches are written %d times", n)
	}
	w.detach(0)
	w.pass(writeInterval)
	w.beside = false
	w.attach(1, "own")
	w.pass(writeInterval)
	if n := w.since(&before); n != 0 {
		t.Errorf("a detach and a confirmed attach are written %d times at once", n)
	}
}

// A pod that came and went between two writes leaves a Confirmation, which only a NodeState of a
// later time ends.
func TestConfirmationOfThePastEnds(t *testing.T) {
	w := newChurn(t)
	w.skip(time.Hour)
	before := w.writes()
	w.attach(0, "a")
	w.detach(0)
	w.pass(15 * time.Second)
	if n := w.since(&before); n != 1 {
		t.Errorf("written %d times", n)
	}
	if last := w.c.written[before-1]; last.Observed == nil || last.Observed.Before(&metav1.MicroTime{Time: w.c.confirmed}) {
		t.Errorf("observed at %v, and the Confirmation is of %v", last.Observed, w.c.confirmed)
	}
	w.skip(time.Hour)
	if n := w.since(&before); n != 0 {
		t.Errorf("written %d times more", n)
	}
}

// Any other change is written at once, also between attaches. So are the changes for which an
// attach waits, and those for which a PF waits until its VFs are free.
func TestOtherNewsDoNotWait(t *testing.T) {
	for name, change := range map[string]func(*churn){
		"a problem": func(w *churn) {
			w.more = func(n *api.NodeStatus) { n.Problems = []api.Problem{{Object: "PF", Reason: "gone"}} }
		},
		"a quarantine":    func(w *churn) { w.more = func(n *api.NodeStatus) { n.PFs[0].VFs.Quarantined = 1 } },
		"another VF":      func(w *churn) { w.more = func(n *api.NodeStatus) { n.Pools[0].VFs.Total++ } },
		"a PF that waits": func(w *churn) { w.more = func(n *api.NodeStatus) { n.PFs[0].WantedVFs = new(int) } },
		"a takeover": func(w *churn) {
			w.more = func(n *api.NodeStatus) { n.VFs = append(n.VFs, api.VF{Name: "enp1s0#99", Phase: "making"}) }
		},
		"an attach": func(w *churn) { w.m.hurry = true },
	} {
		w := newChurn(t)
		w.attach(0, "a")
		w.pass(writeInterval)
		before := w.writes()
		change(w)
		w.pass(writeInterval)
		if n := w.since(&before); n != 1 {
			t.Errorf("%s: written %d times at once", name, n)
		}
		w.detach(0)
		w.pass(writeInterval)
		if n := w.since(&before); n != 0 && name != "a PF that waits" {
			t.Errorf("%s: the next attach is written %d times at once", name, n)
		}
	}
}

// I9: a NodeState names the pod by its UID too, so that a later pod of its name is not taken for
// it. A static pod has another UID in the cluster.
func TestI9StateNamesThePod(t *testing.T) {
	const uid, hash = "8f4c0b2e-3d7a-4c55-9c31-0a6d1e2f3b4c", "0123456789abcdef0123456789abcdef"
	owner := func(sandbox, in string) vf.Owner {
		return vf.Owner{Kind: vf.OwnerPod, UID: sandbox, Name: "d/a", Interface: in}
	}
	records := []journal.Record{
		{Lease: journal.Lease{Owner: owner("s1", "net1"), PodUID: uid}}, {Lease: journal.Lease{Owner: owner("s2", "net1"), PodUID: hash}},
		{Lease: journal.Lease{Owner: vf.Owner{Kind: vf.OwnerGuest, UID: "s3", Interface: "net1"}, PodUID: uid}},
	}
	vfs := []v1alpha1.VFState{{}}
	for _, sandbox := range []string{"s1", "s2", "s3", "s4"} {
		vfs = append(vfs, v1alpha1.VFState{Owner: &v1alpha1.Owner{UID: sandbox, Interface: "net1"}})
	}
	namePods(vfs, records)
	for i, want := range []string{uid, "", "", ""} {
		if got := vfs[i+1].Owner.PodUID; got != want {
			t.Errorf("VF %d: pod %q, want %q", i, got, want)
		}
	}
	m, c := joined(t)
	c.policies = []*v1alpha1.NodePolicy{policy("p", 0, 1, "a")}
	m.look(t)
	err := m.Node.Ledger.Update(func(tx *journal.Tx) error {
		r := tx.Records()[0]
		r.Phase, r.Lease = vf.PhaseAttached, journal.Lease{Owner: owner("s1", "net1"), PodUID: uid}
		return tx.Put(r)
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := m.look(t).VFs[0].Owner; got == nil || got.PodUID != uid {
		t.Errorf("I9: the owner is %+v", got)
	}
}

// I9: a NodeState has the NetworkAttachmentDefinition of a pod's VF by the record of its sandbox. The
// name in the network's configuration is the tenant's choice. Multus leaves no record.
func TestI9StateHasTheNetworkOfTheSandbox(t *testing.T) {
	m, c := joined(t)
	c.policies = []*v1alpha1.NodePolicy{policy("p", 0, 2, "a")}
	m.look(t)
	attach := func(i int, sandbox string, networks ...journal.SandboxNetwork) {
		t.Helper()
		err := m.Node.Ledger.Update(func(tx *journal.Tx) error {
			if len(networks) > 0 {
				if err := tx.PutSandbox(journal.Sandbox{ID: sandbox, Namespace: "d", Pod: "a", Phase: journal.SandboxAdding, Networks: networks}); err != nil {
					return err
				}
			}
			r := tx.Records()[i]
			r.Phase = vf.PhaseFree
			r.Lease = journal.Lease{}
			if err := tx.Put(r); err != nil {
				return err
			}
			r.Phase = vf.PhaseAttached
			r.Lease = journal.Lease{Owner: vf.Owner{Kind: vf.OwnerPod, UID: sandbox, Name: "d/a", Interface: "net2"}, Network: "net1"}
			return tx.Put(r)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	attach(0, "s1", journal.SandboxNetwork{Name: "d/cluster", Interface: "eth0", Default: true}, journal.SandboxNetwork{Name: "d/mine", Interface: "net2"})
	attach(1, "s2")
	for range 2 { // the second NodeState has the names of the first
		vfs := m.look(t).VFs
		if a, b := vfs[0].Owner, vfs[1].Owner; a == nil || b == nil || a.Network != "d/mine" || b.Network != "" {
			t.Errorf("I9: the owners are %+v and %+v", a, b)
		}
		if len(m.networkNames) != 2 {
			t.Errorf("%d names are kept", len(m.networkNames))
		}
	}
	attach(0, "s1", journal.SandboxNetwork{Name: "d/cluster", Interface: "eth0", Default: true}, journal.SandboxNetwork{Name: "d/other", Interface: "net2"})
	if got := m.look(t).VFs[0].Owner; got.Network != "d/other" {
		t.Errorf("I9: a later sandbox of the ID has owner %+v", got)
	}
}

// The NodeState shows used addresses before the node's blocks run out.
func TestUsedAddressesDoNotWait(t *testing.T) {
	w := newChurn(t)
	w.c.pools = []*v1alpha1.AddressPool{{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.AddressPoolSpec{Network: "n",
		Blocks: []v1alpha1.AddressBlock{{Node: "n1", First: "10.0.0.0", Last: "10.0.0.7"}}}}}
	w.m.readPools()
	used := func(n int64) *v1alpha1.NodeStateStatus {
		return &v1alpha1.NodeStateStatus{AddressRequests: []v1alpha1.AddressRequest{{Pool: "n", Used: n}}}
	}
	for _, tc := range []struct {
		before, now int64
		want        bool
	}{{0, 3, false}, {0, 4, true}, {4, 5, false}, {4, 6, true}, {6, 6, false}, {6, 2, false}, {8, 9, true}} {
		if got := w.m.needsBlocks(used(tc.before), used(tc.now)); got != tc.want {
			t.Errorf("%d of 8 addresses were used, now %d: %v", tc.before, tc.now, got)
		}
	}
	if own := w.m.book.Of("n", vf.Owner{}, nil); len(own.Runs) != 1 || own.Runs[0].First != netip.MustParseAddr("10.0.0.0") {
		t.Errorf("%+v", own)
	}
}
