package controller

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/service"
)

// requestNames returns the names of requests, sorted, each once.
func requestNames(requests []reconcile.Request) []string {
	names := map[string]bool{}
	for _, r := range requests {
		names[r.Name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// withoutLists is a client whose cache cannot list yet.
func withoutLists(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("the cache is not filled yet")
	}})
}

// A Node that comes or goes wakes the pools that have blocks of the node and the networks that it
// requests. A node without a NodeState wakes its pools too: their blocks go back.
func TestPoolsThatANodeWakes(t *testing.T) {
	poolWith := func(o *v1alpha1.AddressPool, nodes ...string) *v1alpha1.AddressPool {
		for _, n := range nodes {
			o.Spec.Blocks = append(o.Spec.Blocks, v1alpha1.AddressBlock{Node: n})
		}
		return o
	}
	madeFor := func(network string) *v1alpha1.AddressPool {
		return &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AddressPoolName(network)}, Spec: v1alpha1.AddressPoolSpec{Network: network}}
	}
	c := newCluster(asking("a", 1), asking("new", 1), poolWith(madeFor("n"), "b"), poolWith(madeFor("red/net"), "b", "a", "a"),
		poolWith(declaredPool("storage", "10.9.0.0/24"), "a", "gone"), poolWith(madeFor("other"), "b"))
	for node, want := range map[string][]string{
		"a": {"n", "pool:storage", "red/net"}, "b": {"n", "other", "red/net"}, "gone": {"pool:storage"}, "new": {"n"}, "unknown": nil,
	} {
		if got := requestNames(poolsOf(t.Context(), c, node)); !slices.Equal(got, want) {
			t.Errorf("node %s wakes %q, want %q", node, got, want)
		}
	}
	if got := requestNames(poolsOf(t.Context(), withoutLists(c), "a")); !slices.Equal(got, []string{"n"}) {
		t.Errorf("while pools cannot be listed: %q", got)
	}
}

// A change of a node wakes every policy, since its labels decide which of them it follows.
func TestPoliciesThatANodeWakes(t *testing.T) {
	c := newCluster(policyWithAllow("one", nil), policyWithAllow("two", nil))
	if got := requestNames(everyPolicy(t.Context(), c)); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("woken are %q", got)
	}
	if got := everyPolicy(t.Context(), withoutLists(c)); len(got) > 0 {
		t.Errorf("while policies cannot be listed: %v", got)
	}
}

// A node writes its NodeState every few seconds. Pools are looked at when its requests change, and
// not for a change of the rest.
func TestStatesThatWakePools(t *testing.T) {
	p := changed(func(s *v1alpha1.NodeState) any { return s.Status.AddressRequests })
	before := asking("a", 1)
	rest := before.DeepCopy()
	rest.ResourceVersion, rest.Status.VFs, rest.Status.RollCalls = "2", []v1alpha1.VFState{{Name: "enp1s0#0"}}, []string{"x"}
	for name, tc := range map[string]struct {
		after client.Object
		want  bool
	}{
		"the same":            {before.DeepCopy(), false},
		"VFs and roll calls":  {rest, false},
		"it needs more":       {asking("a", 2), true},
		"it needs no more":    {&v1alpha1.NodeState{}, true},
		"an object unlike it": {newNode("a", nil), true},
	} {
		if got := p.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: tc.after}); got != tc.want {
			t.Errorf("%s: it wakes %t, want %t", name, got, tc.want)
		}
	}
	if !p.Create(event.CreateEvent{Object: before}) || !p.Delete(event.DeleteEvent{Object: before}) {
		t.Error("a NodeState that comes or goes wakes no pool")
	}
}

// Endpoints name the zone of their node: a node that changes its zone wakes every served Service,
// and no other change of a node does.
func TestNodesThatWakeServices(t *testing.T) {
	at := func(zone, other string) client.Object {
		return newNode("n1", map[string]string{corev1.LabelTopologyZone: zone, "other": other})
	}
	p := zoneChanged()
	for name, tc := range map[string]struct{ got, want bool }{
		"another zone":  {p.Update(event.UpdateEvent{ObjectOld: at("z1", ""), ObjectNew: at("z2", "")}), true},
		"another label": {p.Update(event.UpdateEvent{ObjectOld: at("z1", ""), ObjectNew: at("z1", "x")}), false},
		"a new node":    {p.Create(event.CreateEvent{Object: at("z1", "")}), false},
		"a node less":   {p.Delete(event.DeleteEvent{Object: at("z1", "")}), false},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: it wakes %t, want %t", name, tc.got, tc.want)
		}
	}
	unserved := webService(func(s *corev1.Service) { s.Name, s.Annotations = "unserved", nil })
	w := newServing(t, nil, append(twoBackends(), webService(), unserved)...)
	if got := w.s.everyServed(t.Context()); len(got) > 0 {
		t.Errorf("before any Service is served: %v", got)
	}
	w.reconcile()
	if got := w.s.everyServed(t.Context()); len(got) != 1 || got[0].String() != "default/web" {
		t.Errorf("woken are %v", got)
	}
	w.s.Client = withoutLists(w.c.(client.WithWatch)) //nolint:forcetypeassert // the fake is one
	if got := w.s.everyServed(t.Context()); len(got) > 0 {
		t.Errorf("while slices cannot be listed: %v", got)
	}
}

// wokenBy returns the Services that handlers of an event put into their queue.
func wokenBy(t *testing.T, handle func(queue)) (out []string) {
	t.Helper()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	handle(q)
	for q.Len() > 0 {
		r, _ := q.Get()
		q.Done(r)
		out = append(out, r.String())
	}
	slices.Sort(out)
	return out
}

// An EndpointSlice that another program changed or deleted wakes its Service, which puts it right.
// The controller's own writes wake nothing.
func TestSlicesThatWakeServices(t *testing.T) {
	ctx := t.Context()
	w := newServing(t, nil, append(twoBackends(), webService())...)
	w.reconcile()
	own := &w.slices()[0]
	edited, added := own.DeepCopy(), own.DeepCopy()
	edited.Generation++
	added.Name, added.UID = "web-x", "x"
	h := w.s.onSlice()
	for _, tc := range []struct {
		name   string
		handle func(queue)
		want   []string
	}{
		{"the controller's own slice", func(q queue) { h.Create(ctx, event.CreateEvent{Object: own}, q) }, nil},
		{"its own update", func(q queue) { h.Update(ctx, event.UpdateEvent{ObjectOld: own, ObjectNew: own}, q) }, nil},
		{"an edit of another program", func(q queue) { h.Update(ctx, event.UpdateEvent{ObjectOld: own, ObjectNew: edited}, q) }, []string{"default/web"}},
		{"a slice of another program", func(q queue) { h.Create(ctx, event.CreateEvent{Object: added}, q) }, []string{"default/web"}},
		{"which deletes it", func(q queue) { h.Delete(ctx, event.DeleteEvent{Object: added}, q) }, nil},
		{"and then the controller's", func(q queue) { h.Delete(ctx, event.DeleteEvent{Object: own}, q) }, []string{"default/web"}},
		{"no slice", func(q queue) { h.Create(ctx, event.CreateEvent{Object: webService()}, q) }, nil},
	} {
		if got := wokenBy(t, tc.handle); !slices.Equal(got, tc.want) {
			t.Errorf("%s: woken are %q, want %q", tc.name, got, tc.want)
		}
	}
	w.reconcile()
	made := &w.slices()[0]
	w.change(func(s *corev1.Service) { s.Annotations = nil })
	w.reconcile()
	if got := wokenBy(t, func(q queue) { h.Delete(ctx, event.DeleteEvent{Object: made}, q) }); len(w.slices()) > 0 || len(got) > 0 {
		t.Errorf("the controller deleted its slice: %d are left, woken are %q", len(w.slices()), got)
	}
}

// A NodeState wakes the Services of the pods whose VFs it changes: an address that came or went is
// an endpoint more or less.
func TestNodeStatesThatWakeServices(t *testing.T) {
	ctx := t.Context()
	other := webService(func(s *corev1.Service) { s.Name, s.Spec.Selector = "other", map[string]string{"app": "other"} })
	keyed := webService(func(s *corev1.Service) { s.Name, s.Spec.Selector[service.SelectorKey] = "keyed", "default.net1" })
	w := newServing(t, nil, append(twoBackends(), webService(), other, keyed)...)
	state := func(pods ...string) *v1alpha1.NodeState {
		s := &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		for _, p := range pods {
			_, vf := backend(p, "n1", "172.16.91.20")
			s.Status.VFs = append(s.Status.VFs, vf)
		}
		return s
	}
	h := w.s.onNodeState()
	both := []string{"default/keyed", "default/web"}
	for _, tc := range []struct {
		name   string
		handle func(queue)
		want   []string
	}{
		{"a node comes", func(q queue) { h.Create(ctx, event.CreateEvent{Object: state("a")}, q) }, both},
		{"its pod has one more", func(q queue) { h.Update(ctx, event.UpdateEvent{ObjectOld: state(), ObjectNew: state("a")}, q) }, both},
		{"nothing changed", func(q queue) { h.Update(ctx, event.UpdateEvent{ObjectOld: state("a"), ObjectNew: state("a")}, q) }, nil},
		{"a pod that the cache lacks", func(q queue) { h.Update(ctx, event.UpdateEvent{ObjectOld: state(), ObjectNew: state("late")}, q) }, nil},
		{"one of both is in the cache", func(q queue) { h.Update(ctx, event.UpdateEvent{ObjectOld: state(), ObjectNew: state("late", "b")}, q) }, both},
		{"the node goes", func(q queue) { h.Delete(ctx, event.DeleteEvent{Object: state("a")}, q) }, both},
	} {
		if got := wokenBy(t, tc.handle); !slices.Equal(got, tc.want) {
			t.Errorf("%s: woken are %q, want %q", tc.name, got, tc.want)
		}
	}
}
