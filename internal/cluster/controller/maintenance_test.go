package controller

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/reasons"
)

// maintenance is a cluster with a policy for the maintenance of enp1s0f0 on node a.
type maintenance struct {
	t        *testing.T
	c        client.Client
	policies *Policies
}

// maintainedNode is the state of a node with two PFs. VFs of the first have a pod by a claim, a pod of the device
// plugin and a guest.
func maintainedNode(name, mac string) *v1alpha1.NodeState {
	return &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.NodeStateStatus{
		PFs: []v1alpha1.PFState{
			{Name: "enp1s0f0", ID: mac + ":01", NumVFs: 4, PCI: "0000:01:00.0", Carrier: true},
			{Name: "enp1s0f1", ID: mac + ":02", NumVFs: 4, PCI: "0000:01:00.1", Carrier: true},
			{Name: "eno1", ID: mac + ":03", PCI: "0000:02:00.0"},
		},
		VFs: []v1alpha1.VFState{
			{Name: "enp1s0f0#0", Claim: "d/claim", Owner: &v1alpha1.Owner{Kind: "pod", Name: "d/by-claim"}},
			{Name: "enp1s0f0#1", Owner: &v1alpha1.Owner{Kind: "pod", Name: "d/by-plugin"}},
			{Name: "enp1s0f0#2", Owner: &v1alpha1.Owner{Kind: "vm", Name: "guest"}},
			{Name: "enp1s0f0#3"},
			{Name: "enp1s0f1#0", Owner: &v1alpha1.Owner{Kind: "vm", Name: "elsewhere"}},
		},
	}}
}

func newMaintenance(t *testing.T, effect string) *maintenance {
	t.Helper()
	p := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "swap", UID: "u1", Generation: 1}, Spec: v1alpha1.NodePolicySpec{
		NodeSelector: map[string]string{"zone": "a"}, Maintenance: &v1alpha1.Maintenance{PFs: []string{"enp1s0f0"}, Effect: effect},
	}}
	m := &maintenance{t: t, c: newCluster(p, newNode("a", map[string]string{"zone": "a"}), newNode("b", map[string]string{"zone": "b"}),
		maintainedNode("a", "02:00:00:00:0a"), maintainedNode("b", "02:00:00:00:0b"))}
	m.policies = &Policies{Client: m.c, Now: time.Now}
	return m
}

func (m *maintenance) reconcile() ctrl.Result {
	m.t.Helper()
	r, err := m.policies.Reconcile(m.t.Context(), named([]string{"swap"})[0])
	if err != nil {
		m.t.Fatal(err)
	}
	return r
}

func (m *maintenance) policy() *v1alpha1.NodePolicy {
	m.t.Helper()
	p := &v1alpha1.NodePolicy{}
	if err := m.c.Get(m.t.Context(), client.ObjectKey{Name: "swap"}, p); err != nil {
		m.t.Fatal(err)
	}
	return p
}

func (m *maintenance) change(change func(*v1alpha1.NodePolicy)) {
	m.t.Helper()
	p := m.policy()
	change(p)
	p.Generation++
	if err := m.c.Update(m.t.Context(), p); err != nil {
		m.t.Fatal(err)
	}
}

func (m *maintenance) rules() []unstructured.Unstructured {
	m.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(taintRuleKind)
	if err := m.c.List(m.t.Context(), list); err != nil {
		m.t.Fatal(err)
	}
	return list.Items
}

func (m *maintenance) condition() *metav1.Condition {
	return meta.FindStatusCondition(m.policy().Status.Conditions, v1alpha1.ConditionMaintenance)
}

// answer writes the condition of a rule as Kubernetes does.
func (m *maintenance) answer(rule unstructured.Unstructured, generation int64, reason, message string) {
	m.t.Helper()
	rule.Object["status"] = map[string]any{"conditions": []any{map[string]any{
		"type": "EvictionInProgress", "status": "False", "observedGeneration": generation, "reason": reason, "message": message, "lastTransitionTime": "2026-12-01T00:00:00Z",
	}}}
	if err := m.c.Update(m.t.Context(), &rule); err != nil {
		m.t.Fatal(err)
	}
}

// A maintenance has one rule for each PF that it names on the selected nodes. The condition is there before
// the first rule, and says what Kubernetes says, and whom no taint reaches.
func TestMaintenanceIsRules(t *testing.T) {
	m := newMaintenance(t, "None")
	m.reconcile()
	if c := m.condition(); c == nil || c.Reason != reasons.Beginning || len(m.rules()) != 0 {
		t.Fatalf("first: %+v, %d rules", c, len(m.rules()))
	}
	m.reconcile()
	all := m.rules()
	if len(all) != 1 {
		t.Fatalf("%d rules", len(all))
	}
	rule := all[0]
	pool, _, _ := unstructured.NestedString(rule.Object, "spec", "deviceSelector", "pool")
	driver, _, _ := unstructured.NestedString(rule.Object, "spec", "deviceSelector", "driver")
	effect, _, _ := unstructured.NestedString(rule.Object, "spec", "taint", "effect")
	if owners := rule.GetOwnerReferences(); pool != "a/02-00-00-00-0a-01" || driver != "culvert.dev" || effect != "None" || !strings.HasPrefix(rule.GetName(), "culvert-swap-") || len(owners) != 1 || owners[0].UID != "u1" {
		t.Errorf("rule %v", rule.Object)
	}
	if c := m.condition(); c.Reason != reasons.DryRun || c.Message != "a enp1s0f0: Kubernetes has not looked at it yet; no taint reaches pod d/by-plugin, vm guest" {
		t.Errorf("%+v", c)
	}
	m.answer(rule, rule.GetGeneration(), "NoEffect", "1 pod would be evicted in 1 namespace if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update.")
	if r := m.reconcile(); r.RequeueAfter == 0 {
		t.Error("the rule is not looked at again")
	}
	if c := m.condition(); c.Status != metav1.ConditionTrue || c.Message != "a enp1s0f0: 1 pod would be evicted in 1 namespace if the effect was NoExecute; no taint reaches pod d/by-plugin, vm guest" {
		t.Errorf("%+v", c)
	}
}

// Another effect is written into the rule, and what Kubernetes said of the earlier one does not count. The
// time of the taint is the API server's. The controller mends a rule that another writer changed, and does
// not write a rule that is as wanted.
func TestMaintenanceGoesOn(t *testing.T) {
	m := newMaintenance(t, "None")
	m.reconcile()
	m.reconcile()
	m.answer(m.rules()[0], 0, "NoEffect", "old")
	m.change(func(p *v1alpha1.NodePolicy) { p.Spec.Maintenance.Effect = "NoExecute" })
	m.reconcile()
	rule := m.rules()[0]
	if effect, _, _ := unstructured.NestedString(rule.Object, "spec", "taint", "effect"); effect != "NoExecute" {
		t.Errorf("effect %s", effect)
	}
	if c := m.condition(); c.Reason != reasons.NoExecute || !strings.Contains(c.Message, "Kubernetes has not looked at it yet") {
		t.Errorf("%+v", c)
	}
	_ = unstructured.SetNestedField(rule.Object, "2026-12-01T00:00:00Z", "spec", "taint", "timeAdded")
	if err := m.c.Update(t.Context(), &rule); err != nil {
		t.Fatal(err)
	}
	before := m.rules()[0].GetResourceVersion()
	if m.reconcile(); m.rules()[0].GetResourceVersion() != before {
		t.Error("a rule that is as wanted was written")
	}
	_ = unstructured.SetNestedField(rule.Object, "a/other", "spec", "deviceSelector", "pool")
	if err := m.c.Update(t.Context(), &rule); err != nil {
		t.Fatal(err)
	}
	m.reconcile()
	if pool, _, _ := unstructured.NestedString(m.rules()[0].Object, "spec", "deviceSelector", "pool"); pool != "a/02-00-00-00-0a-01" {
		t.Errorf("pool %s", pool)
	}
	m.answer(m.rules()[0], m.rules()[0].GetGeneration(), "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace.")
	m.reconcile()
	if c := m.condition(); !strings.HasPrefix(c.Message, "a enp1s0f0: 1 pod needs to be evicted in 1 namespace; ") {
		t.Errorf("%+v", c)
	}
}

// The end of a maintenance takes its rules and its condition away. Rules of other policies stay.
func TestMaintenanceEnds(t *testing.T) {
	m := newMaintenance(t, "NoSchedule")
	m.reconcile()
	m.reconcile()
	other := m.rules()[0]
	other.SetName("culvert-other-1")
	other.SetResourceVersion("")
	other.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "culvert.dev/v1alpha1", Kind: "NodePolicy", Name: "other", UID: "u2"}})
	if err := m.c.Create(t.Context(), &other); err != nil {
		t.Fatal(err)
	}
	m.change(func(p *v1alpha1.NodePolicy) { p.Spec.Maintenance = nil })
	m.reconcile()
	if all := m.rules(); len(all) != 1 || all[0].GetName() != "culvert-other-1" || m.condition() != nil {
		t.Errorf("%v, %+v", all, m.condition())
	}
	if r := m.reconcile(); r.RequeueAfter != 0 {
		t.Error("a policy without a maintenance is looked at again")
	}
}

// A PF that is out of the machine keeps its rule, and so does the PF of a node without a report. A PF that
// the policy does not name any more has none.
func TestMaintenanceOfAPFThatIsOut(t *testing.T) {
	m := newMaintenance(t, "NoSchedule")
	m.reconcile()
	m.reconcile()
	s := &v1alpha1.NodeState{}
	if err := m.c.Get(t.Context(), client.ObjectKey{Name: "a"}, s); err != nil {
		t.Fatal(err)
	}
	s.Status.PFs = s.Status.PFs[1:]
	if err := m.c.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	m.reconcile()
	if c := m.condition(); len(m.rules()) != 1 || !strings.Contains(c.Message, "the node does not list the PF now") {
		t.Errorf("out of the machine: %d rules, %+v", len(m.rules()), c)
	}
	if err := m.c.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if m.reconcile(); len(m.rules()) != 1 {
		t.Error("the rule of a node without a report is gone")
	}
	m.change(func(p *v1alpha1.NodePolicy) { p.Spec.Maintenance.PFs = []string{"enp1s0f1"} })
	if m.reconcile(); len(m.rules()) != 0 {
		t.Error("the rule of another PF stays")
	}
	if c := m.condition(); c.Status != metav1.ConditionFalse || c.Reason != reasons.NoPF || !strings.Contains(c.Message, "no PF with VFs on the selected nodes has such a name") {
		t.Errorf("%+v", c)
	}
}

// Without names, all PFs of the nodes that have VFs are meant. The rules of two policies do not meet.
func TestMaintenanceOfAllPFs(t *testing.T) {
	m := newMaintenance(t, "None")
	m.change(func(p *v1alpha1.NodePolicy) { p.Spec.Maintenance.PFs, p.Spec.NodeSelector = nil, nil })
	m.reconcile()
	m.reconcile()
	pools := map[string]bool{}
	for _, r := range m.rules() {
		pool, _, _ := unstructured.NestedString(r.Object, "spec", "deviceSelector", "pool")
		pools[pool] = true
	}
	want := []string{"a/02-00-00-00-0a-01", "a/02-00-00-00-0a-02", "b/02-00-00-00-0b-01", "b/02-00-00-00-0b-02"}
	if got := slices.Sorted(maps.Keys(pools)); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	long := strings.Repeat("a.", 126) + "a"
	if a, b := nameRule(long, "p"), nameRule(long+"b", "p"); a == b || len(a) > 253 || strings.Contains(a, ".-") {
		t.Errorf("%s, %s", a, b)
	}
}

// A rule that is not of the policy and has the name of its rule keeps the maintenance from its PF. The
// condition says so, names the command, and is True as soon as the rule is gone.
func TestMaintenanceWithARuleInTheWay(t *testing.T) {
	m := newMaintenance(t, "NoSchedule")
	other := newRule(m.policy(), maintained{"a", "enp1s0f0", "a/02-00-00-00-0a-01", nil})
	other.SetOwnerReferences(nil)
	if err := m.c.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	m.reconcile()
	want := "kubectl delete devicetaintrule " + other.GetName()
	if _, err := m.policies.Reconcile(t.Context(), named([]string{"swap"})[0]); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	if c := m.condition(); c.Status != metav1.ConditionFalse || c.Reason != reasons.NotWritten || !strings.Contains(c.Message, want) {
		t.Errorf("%+v", c)
	}
	if err := m.c.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	m.reconcile()
	if c := m.condition(); c.Status != metav1.ConditionTrue || len(m.rules()) != 1 {
		t.Errorf("%+v, %d rules", c, len(m.rules()))
	}
}

// A cluster older than Kubernetes 1.37 has no such rules, and the condition says so. An API server that does
// not answer is tried again.
func TestMaintenanceWithoutRules(t *testing.T) {
	m := newMaintenance(t, "None")
	m.reconcile()
	away := error(&meta.NoKindMatchError{GroupKind: taintRuleKind.GroupKind()})
	m.policies.Client = failingList{m.c, &away}
	if r := m.reconcile(); r.RequeueAfter != 0 || m.condition().Reason != reasons.NoTaintRules {
		t.Errorf("%+v, %+v", r, m.condition())
	}
	away = errors.New("no answer")
	if _, err := m.policies.Reconcile(t.Context(), named([]string{"swap"})[0]); !errors.Is(err, away) {
		t.Errorf("error %v", err)
	}
}

// failingList is a client that lists no DeviceTaintRules.
type failingList struct {
	client.Client
	err *error
}

func (f failingList) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	if _, is := list.(*unstructured.UnstructuredList); is {
		return *f.err
	}
	return f.Client.List(ctx, list, o...)
}
