package controller

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
)

// lookOnce is one look, which no node answers.
func lookOnce(t *testing.T, a *Addresses) {
	t.Helper()
	if _, err := a.Reconcile(t.Context(), named([]string{"n"})[0]); err != nil {
		t.Fatal(err)
	}
}

// I4: the API server was restored from a backup that is older than a block. The node
// that holds an address of the block reports it. The controller grants nothing until
// every node has answered or its Node object is gone, however long that takes.
func TestI4RestoredServerWaitsForNodes(t *testing.T) {
	now := time.Date(2026, 11, 25, 3, 0, 0, 0, time.UTC)
	held := blocks.Claim{Addr: netip.MustParseAddr("172.16.91.3"), ID: "held/x/net1", Held: true}
	c := newCluster(newNode("a", nil), newNode("b", nil), newNode("down", nil), asking("a", 0), asking("b", 0, held), asking("down", 0))
	a := addresses(c, now)
	a.Now = func() time.Time { now = now.Add(time.Hour); return now }
	for range 3 {
		lookOnce(t, a)
		answerRoll(t, c, "down")
	}
	p := poolOf(t, c)
	if len(p.Spec.Blocks) > 0 || p.Spec.RollCall == "" {
		t.Errorf("I4: granted before every node has answered: %v", show(p))
	}
	const message = "nodes hold addresses that are in no block, as after a restore of the API server: nothing is granted until down report what they hold; delete the Node objects of machines that are gone"
	if got := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionWaiting); got == nil || got.Message != message {
		t.Errorf("%+v, want %s", got, message)
	}
	if err := c.Delete(t.Context(), newNode("down", nil)); err != nil {
		t.Fatal(err)
	}
	lookOnce(t, a)
	if p = poolOf(t, c); len(p.Spec.Blocks) > 0 {
		t.Errorf("I4: granted as soon as the Node object was deleted, whose machine may run on: %v", show(p))
	}
	lookOnce(t, a) // an hour later
	p = poolOf(t, c)
	want := []string{"a 172.16.91.2-172.16.91.2", "b 172.16.91.3-172.16.91.3 held/x/net1", "a 172.16.91.4-172.16.91.19", "b 172.16.91.20-172.16.91.35"}
	if diff := cmp.Diff(want, show(p)); diff != "" {
		t.Errorf("I4: -want +got:\n%s", diff)
	}
	if got := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionWaiting); got != nil {
		t.Errorf("%+v", got)
	}
}

// I4: the API server was restored, and a node says that the pool is older than it was. No node that
// answers holds an address that the pool lacks, but a silent one may.
func TestI4RestoredServerWaitsForASilentNode(t *testing.T) {
	now := time.Date(2026, 11, 25, 3, 0, 0, 0, time.UTC)
	c := newCluster(newNode("a", nil), newNode("down", nil), asking("a", 0), &v1alpha1.NodeState{ObjectMeta: asking("down", 0).ObjectMeta})
	a := addresses(c, now)
	a.Now = func() time.Time { now = now.Add(time.Hour); return now }
	lookOnce(t, a)
	answerRoll(t, c, "down")
	s := &v1alpha1.NodeState{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, s); err != nil {
		t.Fatal(err)
	}
	s.Status.RollCallsBehind = s.Status.RollCalls
	if err := c.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		lookOnce(t, a)
	}
	p := poolOf(t, c)
	got := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionWaiting)
	if len(p.Spec.Blocks) > 0 || got == nil || got.Reason != "Restored" || !strings.Contains(got.Message, "until down report what they hold; delete the Node objects") {
		t.Errorf("granted %v, condition %+v", show(p), got)
	}
	if err := c.Delete(t.Context(), newNode("down", nil)); err != nil {
		t.Fatal(err)
	}
	lookOnce(t, a)
	lookOnce(t, a)
	if p = poolOf(t, c); len(p.Spec.Blocks) == 0 {
		t.Errorf("nothing is granted although the operator has deleted the Node: %+v", p.Status.Conditions)
	}
}

// I7: a node that is down delays a controller which started for a minute, when no node
// holds an address that the pool lacks.
func TestI7NodeThatIsDownDelaysNoGrant(t *testing.T) {
	now := time.Date(2026, 11, 25, 3, 0, 0, 0, time.UTC)
	c := newCluster(newNode("a", nil), newNode("down", nil), asking("a", 0), &v1alpha1.NodeState{ObjectMeta: asking("down", 0).ObjectMeta})
	a := addresses(c, now)
	for i, later := range []time.Duration{0, 0, 59 * time.Second, time.Minute} {
		a.Now = func() time.Time { return now.Add(later) }
		lookOnce(t, a)
		answerRoll(t, c, "down")
		if granted := len(poolOf(t, c).Spec.Blocks) > 0; granted != (i == 3) {
			t.Errorf("after %s: granted %v", later, granted)
		}
	}
}

// I4: a node's answer to a roll call does not count while the node cannot read its
// ledger. The answer of an earlier Node of the name does not count either.
func TestI4IncompleteAnswersDoNotCount(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.NodeState){
		"unread":       func(s *v1alpha1.NodeState) { s.Status.AddressesUnread = 1 },
		"earlier Node": func(s *v1alpha1.NodeState) { s.Status.NodeUID = "an earlier b" },
	} {
		s := asking("b", 0)
		change(s)
		var c client.Client = newCluster(newNode("a", nil), newNode("b", nil), asking("a", 0), s)
		a := addresses(c, time.Now())
		look(t, a)
		if p := poolOf(t, c); len(p.Spec.Blocks) > 0 {
			t.Errorf("I4: %s: %v", name, show(p))
		}
	}
}
