package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

// drainHistory is a cluster of node n1 over several passes of one controller.
type drainHistory struct {
	t   *testing.T
	c   client.Client
	d   *Drain
	now time.Time
}

func newDrainHistory(t *testing.T, state *v1alpha1.NodeState, pods ...string) *drainHistory {
	t.Helper()
	objects := []client.Object{newNode("n1", nil), state}
	for _, p := range pods {
		objects = append(objects, podOn("n1", p))
	}
	h := &drainHistory{t: t, c: newCluster(objects...), now: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)}
	h.restart()
	return h
}

// restart is another leader, which has no memory of the first.
func (h *drainHistory) restart() {
	h.d = &Drain{Client: h.c, Live: h.c, Nodes: 1, Now: func() time.Time { return h.now }, Events: record.NewFakeRecorder(100)}
}

// report replaces the node's NodeState.
func (h *drainHistory) report(s *v1alpha1.NodeState) {
	h.t.Helper()
	old := &v1alpha1.NodeState{}
	if err := h.c.Get(h.t.Context(), client.ObjectKey{Name: "n1"}, old); err != nil {
		h.t.Fatal(err)
	}
	s.ResourceVersion = old.ResourceVersion
	if err := h.c.Update(h.t.Context(), s); err != nil {
		h.t.Fatal(err)
	}
}

// requirePass runs a pass after some time, and compares the nodes, the pods and the reasons of the
// events with the wanted ones.
func (h *drainHistory) requirePass(what string, after time.Duration, want drained, events ...string) (messages []string) {
	h.t.Helper()
	h.now = h.now.Add(after)
	if _, err := h.d.Reconcile(h.t.Context(), ctrl.Request{}); err != nil {
		h.t.Fatalf("%s: %v", what, err)
	}
	if diff := cmp.Diff(want, drainState(h.t, h.c)); diff != "" {
		h.t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
	var reasons []string
	recorder := h.d.Events.(*record.FakeRecorder) //nolint:forcetypeassert // as restart made it
	for len(recorder.Events) > 0 {
		message := <-recorder.Events
		messages = append(messages, message)
		reasons = append(reasons, strings.Fields(message)[1])
	}
	if !slices.Equal(reasons, events) {
		h.t.Fatalf("%s: events %q, want %q", what, messages, events)
	}
	return messages
}

// node returns the Node.
func (h *drainHistory) node() *corev1.Node {
	h.t.Helper()
	n := &corev1.Node{}
	if err := h.c.Get(h.t.Context(), client.ObjectKey{Name: "n1"}, n); err != nil {
		h.t.Fatal(err)
	}
	return n
}

// comeBack is the pod that a Deployment makes in place of an evicted one.
func (h *drainHistory) comeBack(pod string) {
	h.t.Helper()
	if err := h.c.Create(h.t.Context(), podOn("n1", pod)); err != nil {
		h.t.Fatal(err)
	}
}

// withOwner gives a VF of a NodeState to an owner that is no pod.
func withOwner(s *v1alpha1.NodeState, name, phase string, o v1alpha1.Owner) *v1alpha1.NodeState {
	s.Status.VFs = append(s.Status.VFs, v1alpha1.VFState{Name: name, Phase: phase, Owner: &o})
	return s
}

// While a guest or a container has a VF of the PF, culvertd does not make the change, so no pod is
// evicted. The Node gets one event. When they have gone, the drain begins.
func TestDrainWaitsForOtherOwners(t *testing.T) {
	pods := []string{"default/a", "default/b"}
	guest, container := v1alpha1.Owner{Kind: "vm", Name: "db1", UID: "8a1c"}, v1alpha1.Owner{Kind: "container", UID: "3f2a9c41d0b7aaaa"}
	held := func() *v1alpha1.NodeState {
		return withOwner(withOwner(withVFs("n1", 7, pods, []string{"default/other"}), "enp1s0#3", "attached", guest), "enp1s0#2", "configuring", container)
	}
	h := newDrainHistory(t, held(), "a", "b", "other")
	all := drained{nil, []string{"a", "b", "other"}}
	got := h.requirePass("held", 0, all, "DrainBlocked")
	want := "Warning DrainBlocked no pod is evicted for PF enp1s0: 4 VFs, 7 wanted, held by container 3f2a9c41d0b7, vm db1: " +
		"stop these owners or detach their VFs; Culvert then makes the change"
	if got[0] != want {
		t.Errorf("got  %s\nwant %s", got[0], want)
	}
	h.requirePass("held still", time.Hour, all)
	h.report(withOwner(withVFs("n1", 7, pods, nil), "enp1s0#3", "attached", guest))
	h.requirePass("held by the guest alone", 0, all, "DrainBlocked")
	both := held()
	both.Status.PFs[1].TotalVFs, both.Status.PFs[1].NumVFs = 8, 8
	h.report(both)
	h.requirePass("another PF is not held", 0, drained{[]string{"n1"}, []string{"a", "b"}}, "DrainBlocked", "DrainBegan", "Evicted")
	h.report(held())
	h.requirePass("that PF is changed", 0, drained{nil, []string{"a", "b"}}, "DrainEnded")
	h.report(withOwner(withVFs("n1", 7, pods, nil), "enp1s0#3", "quarantined", guest))
	h.requirePass("the owners have gone", 0, drained{[]string{"n1"}, nil}, "DrainBegan", "Evicted", "Evicted")
}

// A drain that does not lead to the change ends drainPatience after the VFs are free. No leader
// repeats it until another change is wanted or the annotation is removed.
func TestDrainThatChangesNothing(t *testing.T) {
	had := []string{"default/a"}
	h := newDrainHistory(t, withVFs("n1", 7, had, nil), "a")
	cordoned, back := drained{[]string{"n1"}, nil}, drained{nil, []string{"a"}}
	h.requirePass("begin", 0, cordoned, "DrainBegan", "Evicted")
	h.requirePass("the pod took an hour to end", time.Hour, cordoned)
	h.requirePass("culvertd has time to make the change", drainPatience, cordoned)
	got := h.requirePass("culvertd does not make it", time.Minute, drained{}, "DrainGaveUp")
	if !strings.Contains(got[0], "PF enp1s0: 4 VFs, 7 wanted") || !strings.Contains(got[0], drainedFor) {
		t.Errorf("the event does not name the change and the next step: %s", got[0])
	}
	h.comeBack("a")
	h.requirePass("the pod is back", time.Minute, back)
	h.restart()
	h.requirePass("another leader", time.Hour, back)
	broken := withVFs("n1", 7, had, nil)
	broken.Status.PFs[0].Error = "it cannot be read"
	h.report(broken)
	h.requirePass("the PF cannot be read", 0, back)
	restarted := withVFs("n1", 7, had, nil)
	restarted.Status.PFs[0].WantedVFs = nil
	restarted.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPoliciesApplied, Status: metav1.ConditionUnknown}}
	h.report(restarted)
	h.requirePass("culvertd is restarted", 0, back)
	h.report(withVFs("n1", 7, had, nil))
	h.requirePass("the same change", 0, back)

	h.report(withVFs("n1", 6, had, nil))
	h.requirePass("another number", 0, cordoned, "DrainBegan", "Evicted")
	h.requirePass("free", 0, cordoned)
	h.requirePass("given up", drainPatience+time.Minute, drained{}, "DrainGaveUp")
	h.comeBack("a")
	h.requirePass("remembered", 0, back)
	n := h.node()
	before := n.DeepCopy()
	delete(n.Annotations, drainedFor)
	if !isDrainForgotten(before, n) || isDrainForgotten(n, before) || isDrainForgotten(n, n) {
		t.Error("Drain is not woken by the removal of the annotation, or by another write")
	}
	if err := h.c.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	h.requirePass("a person removed the annotation", 0, cordoned, "DrainBegan", "Evicted")
	h.report(withVFs("n1", 4, nil, nil))
	h.requirePass("the change is made", 0, drained{}, "DrainEnded")
	if n := h.node(); len(n.Annotations) > 0 {
		t.Errorf("annotations are left: %v", n.Annotations)
	}
}

// A leader compares no time of another machine's clock. A new leader waits for drainPatience from when
// it first sees the node, whether its clock is hours ahead or behind.
func TestDrainOfLeadersWithOtherClocks(t *testing.T) {
	h := newDrainHistory(t, withVFs("n1", 7, []string{"default/a"}, nil), "a")
	cordoned := drained{[]string{"n1"}, nil}
	h.requirePass("begin", 0, cordoned, "DrainBegan", "Evicted")
	h.requirePass("free", time.Second, cordoned)
	for _, ahead := range []time.Duration{6 * time.Minute, -3 * time.Hour} {
		h.restart()
		h.requirePass("another leader", ahead, cordoned)
		h.requirePass("and it waits", drainPatience-time.Second, cordoned)
	}
	h.requirePass("not for ever", 2*time.Second, drained{}, "DrainGaveUp")
}

// Drain forgets that it drained a node for a change once the change is not wanted any more. If it
// is wanted later, Drain drains the node again.
func TestDrainIsForgotten(t *testing.T) {
	n := newNode("n1", nil)
	n.Annotations = map[string]string{drainedFor: "PF enp1s0: 4 VFs, 7 wanted"}
	c := newCluster(n, withVFs("n1", 4, []string{"default/a"}, nil), podOn("n1", "a"))
	h := &drainHistory{t: t, c: c}
	h.restart()
	h.requirePass("nothing is wanted", 0, drained{nil, []string{"a"}})
	if n := h.node(); len(n.Annotations) > 0 {
		t.Errorf("annotations are left: %v", n.Annotations)
	}
	h.report(withVFs("n1", 7, []string{"default/a"}, nil))
	h.requirePass("the change is wanted again", 0, drained{[]string{"n1"}, nil}, "DrainBegan", "Evicted")
}

// A guest that takes a VF during the drain ends it, and the drain is not repeated when the guest
// has gone. Otherwise a container that is restarted again and again would cost pods each time.
func TestDrainThatAGuestInterrupts(t *testing.T) {
	h := newDrainHistory(t, withVFs("n1", 7, []string{"default/a"}, nil), "a")
	h.requirePass("begin", 0, drained{[]string{"n1"}, nil}, "DrainBegan", "Evicted")
	h.report(withOwner(withVFs("n1", 7, nil, nil), "enp1s0#3", "attached", v1alpha1.Owner{Kind: "vm", Name: "db1"}))
	h.requirePass("a guest has a VF", 0, drained{}, "DrainBlocked", "DrainGaveUp")
	h.comeBack("a")
	h.report(withVFs("n1", 7, []string{"default/a"}, nil))
	h.requirePass("the guest has gone", 0, drained{nil, []string{"a"}})
}

// A drain goes on while culvertd is restarted, and ends well although another PF cannot be read.
func TestDrainDuringARestart(t *testing.T) {
	h := newDrainHistory(t, withVFs("n1", 7, []string{"default/a"}, nil), "a")
	cordoned := drained{[]string{"n1"}, nil}
	h.requirePass("begin", 0, cordoned, "DrainBegan", "Evicted")
	s := withVFs("n1", 7, nil, nil)
	s.Status.PFs[0].WantedVFs = nil
	s.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPoliciesApplied, Status: metav1.ConditionUnknown}}
	h.report(s)
	h.requirePass("culvertd is restarted", 0, cordoned)
	s = withVFs("n1", 4, nil, nil)
	s.Status.PFs[1].Error = "it cannot be read"
	h.report(s)
	h.requirePass("the change is made", 0, drained{}, "DrainEnded")
}

// A program that uses a VF outside the ledger keeps culvertd from the change, so no pod is evicted.
func TestDrainWaitsForUsersOutsideTheLedger(t *testing.T) {
	used := func(phase string, owner *v1alpha1.Owner) *v1alpha1.NodeState {
		s := withVFs("n1", 7, []string{"default/a"}, nil)
		s.Status.VFs = append(s.Status.VFs, v1alpha1.VFState{Name: "enp1s0#3", Phase: phase, Owner: owner, UsedBy: "open by qemu-system-x86 (process 12)"})
		return s
	}
	h := newDrainHistory(t, used("free", nil), "a")
	all := drained{nil, []string{"a"}}
	got := h.requirePass("used", 0, all, "DrainBlocked")
	want := "Warning DrainBlocked no pod is evicted for PF enp1s0: 4 VFs, 7 wanted, held by a user outside Culvert (VF enp1s0#3: open by qemu-system-x86 (process 12)): " +
		"stop these owners or detach their VFs; Culvert then makes the change"
	if got[0] != want {
		t.Errorf("got  %s\nwant %s", got[0], want)
	}
	h.requirePass("used still", time.Hour, all)
	h.report(used("unmanaged", nil))
	h.requirePass("a VF that is not in the ledger", 0, all)
	h.report(used("quarantined", &v1alpha1.Owner{Kind: "pod", Name: "default/a"}))
	h.requirePass("a VF in quarantine", 0, all)
	h.report(withVFs("n1", 7, []string{"default/a"}, nil))
	h.requirePass("it has ended", 0, drained{[]string{"n1"}, nil}, "DrainBegan", "Evicted")
}
