package daemon

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

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/status"
	"github.com/culvert-net/culvert/vf"
)

// look is one round of a member: what the cluster says is followed, and the state
// is told.
func (m *member) look(t *testing.T) v1alpha1.NodeStateStatus {
	t.Helper()
	if m.readWishes() {
		_ = m.node.Reconciler.Pass(t.Context(), false) // what it cannot do is told
	}
	m.readPools()
	if err := m.write(t.Context()); err != nil {
		t.Fatal(err)
	}
	return *m.written
}

// is says a condition in a line, empty when it is not there.
func is(s v1alpha1.NodeStateStatus, kind string) string {
	c := conditions.FindStatusCondition(s.Conditions, kind)
	if c == nil {
		return ""
	}
	return strings.TrimSpace(string(c.Status) + " " + c.Reason + " " + c.Message)
}

// What became of the policies: in the order in which they are followed, with who
// contradicts whom, and summed up. Nothing of a contradiction is applied.
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
	if got := is(s, v1alpha1.ConditionPoliciesApplied); !strings.HasPrefix(got, "False Pending NodePolicy a: PF enp1s0 has 2 VFs, wanted are 9; ") || !strings.Contains(got, "it can have 7") {
		t.Errorf("why it cannot be applied is not told: %q", got)
	}
}

// Before the policies are known nobody says that they are applied.
func TestPoliciesNotHeard(t *testing.T) {
	m, c := joined(t)
	c.unheard["policies"] = true
	if got := is(m.look(t), v1alpha1.ConditionPoliciesApplied); !strings.HasPrefix(got, "Unknown NotHeard") {
		t.Errorf("%q", got)
	}
}

func TestAddressesOwned(t *testing.T) {
	got := owned(nil)
	if got.Status != metav1.ConditionTrue {
		t.Errorf("%+v", got)
	}
	got = owned([]string{"a", "b"})
	if got.Status != metav1.ConditionFalse || got.Message != "a; b: delete the pods that have them" {
		t.Errorf("%+v", got)
	}
}

// A condition's message is bounded: the API server would refuse the whole state.
func TestMessagesAreBounded(t *testing.T) {
	if got := owned([]string{strings.Repeat("x", 100_000)}); len(got.Message) > 4000 {
		t.Errorf("%d bytes", len(got.Message))
	}
}

// The node's picture becomes the object with its counts, owners, pools, and no
// more problems than an object should have.
func TestStateOf(t *testing.T) {
	owner := vf.Owner{Kind: vf.OwnerPod, UID: "u", Name: "d/a", Interface: "net1"}
	seven := 7
	n := api.NodeStatus{
		Version: "v1",
		PFs: []api.PF{{Name: "enp1s0", PCI: vf.PCIAddr{Bus: 1}, WantedVFs: &seven, TotalVFs: 7, Abilities: vf.Abilities{vf.Settings()[0]: vf.No, vf.Settings()[1]: vf.Yes},
			VFs: api.Counts{Total: 4, Used: 1, Free: 2, Quarantined: 1}}},
		VFs: []api.VF{
			{Name: "enp1s0#0", Phase: "attached", Owner: &owner, Network: "n", Addresses: []string{"10.0.0.2/24"}, Pool: "x/a"},
			{Name: "enp1s0#1", Phase: "quarantined", Reason: "stuck", Owner: &vf.Owner{}},
		},
		Pools:    []api.Pool{{Name: "x/a", DeviceType: "netdevice", PFs: []string{"enp1s0"}, VFs: api.Counts{Total: 4, Free: 2}}},
		Problems: slices.Repeat([]api.Problem{{Object: "o", Reason: "r", Next: "n"}}, 40),
	}
	s := stateOf(n)
	if want := (v1alpha1.Counts{PFs: 1, VFs: 4, Used: 1, Free: 2, Quarantined: 1}); s.Counts != want {
		t.Errorf("%+v", s.Counts)
	}
	if pf := s.PFs[0]; *pf.WantedVFs != 7 || pf.NumVFs != 4 || !slices.Equal(pf.Unable, []string{string(vf.Settings()[0])}) {
		t.Errorf("%+v", pf)
	}
	want := []v1alpha1.VFState{
		{Name: "enp1s0#0", PCI: n.VFs[0].PCI.String(), Phase: "attached", Pool: "x/a", Network: "n", Addresses: []string{"10.0.0.2/24"},
			Owner: &v1alpha1.Owner{Kind: "pod", Name: "d/a", UID: "u", Interface: "net1"}},
		{Name: "enp1s0#1", PCI: n.VFs[1].PCI.String(), Phase: "quarantined", Reason: "stuck"},
	}
	if diff := cmp.Diff(want, s.VFs); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(s.Problems) != mostProblems || s.Pools[0].Free != 2 || is(s, v1alpha1.ConditionReady) != "False Starting the VFs are not made yet" {
		t.Errorf("%d problems, %+v, %s", len(s.Problems), s.Pools, is(s, v1alpha1.ConditionReady))
	}
}

// What goes wrong is told once as an event of the Node, and once more when it is
// over.
func TestNewsAreToldOnce(t *testing.T) {
	m, c := joined(t)
	picture := m.status
	var quarantined bool
	m.status = func(ctx context.Context) (api.NodeStatus, error) {
		n, err := picture(ctx)
		if quarantined {
			n.VFs = append(n.VFs, api.VF{Name: "enp1s0#3", Phase: "quarantined", Reason: "stuck", Owner: &vf.Owner{Kind: vf.OwnerPod, Name: "d/a"}})
		}
		return n, err
	}
	for _, step := range []struct {
		change func()
		want   []string
	}{
		{func() {}, nil},
		{func() { quarantined = true }, []string{"Warning Quarantined VF enp1s0#3 (): it is in quarantine, nobody gets it: stuck; last held by pod d/a"}},
		{func() { c.plugin = config("{") }, []string{"Warning NotAsWanted ConfigMap kube-system/sriovdp-config: sriovdp-config/config.json:1: "}},
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
	m.told = nil
	m.status = func(context.Context) (api.NodeStatus, error) {
		return api.NodeStatus{VFs: []api.VF{{Name: "x", Phase: "quarantined"}}}, nil
	}
	c.events = nil
	if m.look(t); len(c.events) != 0 {
		t.Errorf("told while the node starts: %q", c.events)
	}
}

// A VF that waits in quarantine is told once, however often somebody looks: what
// is told is when it is tried again, and not how long until then.
func TestWaitForARetryIsToldOnce(t *testing.T) {
	m, c := joined(t)
	c.policies = []*v1alpha1.NodePolicy{policy("p", 0, 3, "a")}
	m.look(t)
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	err := m.node.Ledger.Update(func(tx *journal.Tx) error {
		all := tx.Records()
		r := all[1]
		r.Phase, r.Reason, r.Attempts, r.NextRetry = journal.Quarantined, "stuck", 3, now.Add(40*time.Second)
		return tx.Put(r)
	})
	if err != nil {
		t.Fatal(err)
	}
	m.status = func(ctx context.Context) (api.NodeStatus, error) {
		pfs, err := m.node.Inventory.Refresh(ctx)
		if err != nil {
			return api.NodeStatus{}, err
		}
		records, err := m.node.records()
		now = now.Add(10 * time.Second)
		return status.Assemble(status.Input{Now: now, Ready: true, Spec: m.node.Spec(), PFs: pfs, Records: records}), err
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

// Several things that are wrong with one object are one piece of news.
func TestTroublesOfOneObject(t *testing.T) {
	got := troublesOf(api.NodeStatus{}, []api.Problem{{Object: "PF a", Reason: "one"}, {Object: "PF a", Reason: "two"}, {Object: "PF b", Reason: "three"}})
	if len(got) != 2 || got["PF a"].text != "one; two" {
		t.Errorf("%+v", got)
	}
}

// An address of the node that the cluster gave to another node is told.
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

// hold has the ledger hold addresses of network n.
func hold(t *testing.T, m *member, all ...string) {
	t.Helper()
	err := m.node.Ledger.Update(func(tx *journal.Tx) error {
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
