package membership

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	conditions "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/status"
	"github.com/culvert-net/culvert/internal/vf"
)

// look makes one round of a Member: it follows the cluster's objects and writes the NodeState.
func (m *Member) look(t *testing.T) v1alpha1.NodeStateStatus {
	t.Helper()
	if m.readSpec() {
		_ = m.Node.Reconciler.Pass(t.Context()) // its problems are in the NodeState
	}
	m.readPools()
	m.hurry = true
	if _, err := m.writeState(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	return *m.written
}

// is returns a condition in one line, or "" if there is none.
func is(s v1alpha1.NodeStateStatus, kind string) string {
	c := conditions.FindStatusCondition(s.Conditions, kind)
	if c == nil {
		return ""
	}
	return strings.TrimSpace(string(c.Status) + " " + c.Reason + " " + c.Message)
}

// The NodeState has the outcome of the policies, in the order in which the node follows them. It
// names the policies that contradict each other, and a condition sums all up. The node applies no
// part of a contradiction.
func TestPolicyStates(t *testing.T) {
	m, c := joined(t)
	if got := is(m.look(t), v1alpha1.ConditionPoliciesApplied); got != "True NoPolicies" {
		t.Errorf("%q", got)
	}
	c.policies = []*v1alpha1.NodePolicy{policy("b", 0, 3, "one"), policy("a", 7, 2, "two")}
	s := m.look(t)
	if want := []v1alpha1.PolicyState{{Name: "a", Generation: 1, Applied: true}, {Name: "b", Generation: 1, Applied: true}}; !cmp.Equal(want, s.Policies) {
		t.Error(cmp.Diff(want, s.Policies))
	}
	if got := is(s, v1alpha1.ConditionPoliciesApplied); got != "True Applied" || s.Counts.VFs != 2 {
		t.Errorf("%q, %d VFs", got, s.Counts.VFs)
	}
	c.policies = append(c.policies, policy("c", 7, 4))
	s = m.look(t)
	const why = "PF enp1s0: policies a, c contradict each other"
	for i, conflicts := range [][]string{{"c"}, {"a"}, nil} {
		p := s.Policies[i]
		if !slices.Equal(p.Conflicts, conflicts) || p.Applied != (conflicts == nil) || strings.HasPrefix(p.Reason, why) != (conflicts != nil) {
			t.Errorf("%+v", p)
		}
	}
	if got := is(s, v1alpha1.ConditionPoliciesApplied); !strings.HasPrefix(got, "False Conflict NodePolicy a: "+why) || s.Counts.VFs != 2 {
		t.Errorf("%q, %d VFs", got, s.Counts.VFs)
	}
	c.policies = []*v1alpha1.NodePolicy{policy("a", 0, 9)}
	s = m.look(t)
	if got := is(s, v1alpha1.ConditionPoliciesApplied); !strings.HasPrefix(got, "False Pending NodePolicy a: PF enp1s0 has 2 VFs, should have 9; ") || !strings.Contains(got, "it can have 7") {
		t.Errorf("why it cannot be applied is not told: %q", got)
	}
}

// Before the policies are known, the condition does not say that they are applied.
func TestPoliciesNotHeard(t *testing.T) {
	m, c := joined(t)
	c.unheard["policies"] = true
	if got := is(m.look(t), v1alpha1.ConditionPoliciesApplied); !strings.HasPrefix(got, "Unknown NotHeard") {
		t.Errorf("%q", got)
	}
}

func TestAddressesOwned(t *testing.T) {
	got := addressCondition(nil, 0)
	if got.Status != metav1.ConditionTrue {
		t.Errorf("%+v", got)
	}
	got = addressCondition([]string{"a", "b"}, 1)
	if got.Status != metav1.ConditionFalse || got.Message != "a; b: delete the pods that have them" {
		t.Errorf("%+v", got)
	}
}

// A condition's message is bounded: the API server would refuse the whole state.
func TestMessagesAreBounded(t *testing.T) {
	if got := addressCondition([]string{strings.Repeat("x", 100_000)}, 0); len(got.Message) > 4000 {
		t.Errorf("%d bytes", len(got.Message))
	}
}

// A trouble is one event of the Node when it begins, and another one when it is over.
func TestNewsAreToldOnce(t *testing.T) {
	m, c := joined(t)
	picture := m.Status
	var quarantined, outside bool
	m.Status = func(ctx context.Context) (api.NodeStatus, error) {
		n, err := picture(ctx)
		if quarantined {
			n.VFs = append(n.VFs, api.VF{Name: "enp1s0#3", Phase: "quarantined", Reason: "stuck", Owner: &vf.Owner{Kind: vf.OwnerPod, Name: "d/a"}})
		}
		if outside {
			n.VFs = append(n.VFs, api.VF{Name: "enp1s0#4", Phase: api.PhaseOutside, UsedBy: "a VLAN is on it"})
		}
		return n, err
	}
	for _, step := range []struct {
		change func()
		want   []string
	}{
		{func() {}, nil},
		{func() { quarantined = true }, []string{"Warning Quarantined VF enp1s0#3 (): it is in quarantine and given to no owner: stuck; last held by pod d/a"}},
		{func() { outside = true }, []string{"Warning UsedOutside VF enp1s0#4 (): it is used outside Culvert, and given to no owner: a VLAN is on it"}},
		{func() { outside = false }, []string{"Normal UseEnded VF enp1s0#4 (): that is over: "}},
		{func() { c.plugin = pluginConfig("{") }, []string{"Warning NotAsWanted ConfigMap kube-system/sriovdp-config: sriovdp-config/config.json:1: "}},
		{func() { c.policies = []*v1alpha1.NodePolicy{policy("a", 0, 1), policy("b", 0, 2)} },
			[]string{"Warning NotAsWanted NodePolicies a, b: PF enp1s0: policies a, b contradict each other"}},
		{func() { quarantined, c.policies = false, nil }, []string{"Normal AsWanted NodePolicies a, b: that is over: ", "Normal Recovered VF enp1s0#3 "}},
		{func() { c.plugin = nil }, []string{"Normal AsWanted ConfigMap kube-system/sriovdp-config: that is over: "}},
	} {
		step.change()
		c.events = nil
		for range 3 {
			m.look(t)
		}
		if !slices.EqualFunc(c.events, step.want, strings.HasPrefix) {
			t.Errorf("%q\nwant %q", c.events, step.want)
		}
	}
	m.reported = nil
	m.Status = func(context.Context) (api.NodeStatus, error) {
		return api.NodeStatus{VFs: []api.VF{{Name: "x", Phase: "quarantined"}}}, nil
	}
	c.events = nil
	if m.look(t); len(c.events) != 0 {
		t.Errorf("told while the node starts: %q", c.events)
	}
}

// A VF that waits in quarantine makes one write, however often the Member looks: the NodeState has
// the time of the next try, and not the duration until then.
func TestWaitForARetryIsToldOnce(t *testing.T) {
	m, c := joined(t)
	c.policies = []*v1alpha1.NodePolicy{policy("p", 0, 3, "a")}
	m.look(t)
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	err := m.Node.Ledger.Update(func(tx *journal.Tx) error {
		all := tx.Records()
		r := all[1]
		r.Phase, r.Reason, r.Attempts, r.NextRetry = vf.PhaseQuarantined, "stuck", 3, now.Add(40*time.Second)
		return tx.Put(r)
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Status = func(ctx context.Context) (api.NodeStatus, error) {
		pfs, err := m.Node.Inventory.Refresh(ctx)
		if err != nil {
			return api.NodeStatus{}, err
		}
		records, err := m.Node.Records()
		now = now.Add(10 * time.Second)
		return status.Assemble(status.Input{Now: now, Ready: true, Spec: m.Node.Spec(), PFs: pfs, Records: records}), err
	}
	c.written = nil
	for range 5 { // the retry is due, and late
		m.look(t)
	}
	if len(c.written) != 1 {
		t.Fatalf("written %d times, and nothing changed: %+v", len(c.written), c.written)
	}
	if told := c.written[0].Problems; len(told) != 1 || !strings.HasPrefix(told[0].Next, "tried 3 times, again at 2026-11-22 10:00:40 UTC; ") {
		t.Errorf("%+v", told)
	}
}

// Several troubles of one object are one event.
func TestTroublesOfOneObject(t *testing.T) {
	got := findTroubles(api.NodeStatus{}, []api.Problem{{Object: "PF a", Reason: "one"}, {Object: "PF a", Reason: "two"}, {Object: "PF b", Reason: "three"}})
	if len(got) != 2 || got["PF a"].Text != "one; two" {
		t.Errorf("%+v", got)
	}
}

// The NodeState reports an address of the node that the cluster gave to another node.
func TestDisputedAddressIsTold(t *testing.T) {
	m, c := joined(t)
	pool := &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.AddressPoolSpec{Network: "n",
		Blocks: []v1alpha1.AddressBlock{{Node: "n2", First: "10.0.0.0", Last: "10.0.0.9"}, {Node: "n1", First: "10.0.0.10", Last: "10.0.0.19"}}}}
	c.pools = []*v1alpha1.AddressPool{pool}
	if got := is(m.look(t), v1alpha1.ConditionAddresses); got != "True Owned" {
		t.Errorf("%q", got)
	}
	hold(t, m, "10.0.0.12", "10.0.0.3")
	want := "False Disputed address 10.0.0.3 of network n, which pod d/a has, is in block 10.0.0.0-10.0.0.9 of node n2: delete the pods that have them"
	if got := is(m.look(t), v1alpha1.ConditionAddresses); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// I4: a node repeats the roll calls of the pools, and claims each address that it holds
// and that is in no block of its own.
func TestI4RollCallIsAnswered(t *testing.T) {
	m, c := joined(t)
	c.pools = []*v1alpha1.AddressPool{
		{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.AddressPoolSpec{Network: "n", RollCall: "r2"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "o"}, Spec: v1alpha1.AddressPoolSpec{Network: "o", RollCall: "r1"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.AddressPoolSpec{Network: "p"}},
	}
	hold(t, m, "10.0.0.12")
	s := m.look(t)
	if !slices.Equal(s.RollCalls, []string{"r1", "r2"}) {
		t.Errorf("%q", s.RollCalls)
	}
	if len(s.AddressRequests) != 1 || len(s.AddressRequests[0].Claims) != 1 || !s.AddressRequests[0].Claims[0].Held {
		t.Errorf("I4: %+v", s.AddressRequests)
	}
	select {
	case <-m.urgent:
	default:
		t.Error("the controller waits for the answer, and it is written at leisure")
	}
}

// I4: an address whose entry in the ledger cannot be read stays claimed, and the
// NodeState says that the requests are not complete. The name of this network is no
// UTF-8, which JSON does not keep, so that the entry contradicts its key.
func TestI4UnreadableAddressIsReported(t *testing.T) {
	m, _ := joined(t)
	err := m.Node.Ledger.Update(func(tx *journal.Tx) error {
		return tx.HoldAddress(journal.Address{Network: "n\xff", Addr: netip.MustParseAddr("10.0.0.3"), Claim: "x"})
	})
	if err != nil {
		t.Fatal(err)
	}
	s := m.look(t)
	if s.AddressesUnread != 1 {
		t.Errorf("%d addresses are unread, want 1", s.AddressesUnread)
	}
	if len(s.AddressRequests) != 1 || len(s.AddressRequests[0].Claims) != 1 || s.AddressRequests[0].Claims[0].Address != "10.0.0.3" {
		t.Errorf("%+v", s.AddressRequests)
	}
	const want = "False Unread 1 addresses of the ledger cannot be read, so the controller takes no address back from the node: culvert ledger check says more"
	if got := is(s, v1alpha1.ConditionAddresses); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// hold makes the ledger hold addresses of network n.
func hold(t *testing.T, m *Member, all ...string) {
	t.Helper()
	err := m.Node.Ledger.Update(func(tx *journal.Tx) error {
		for _, a := range all {
			o := vf.Owner{Kind: vf.OwnerPod, UID: a, Name: "d/a", Interface: "net1"}
			if err := tx.HoldAddress(journal.Address{Network: "n", Addr: netip.MustParseAddr(a), Owner: o}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
