package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/ipam"
)

// I10: the controller asks the cluster where a pod is before a node's report of the pod changes the
// kept addresses. It shows a node that reports another node's pod in a condition and an event. It
// looks again soon, since its cache of pods may be behind.
func TestI10KeptAddressesFollowThePod(t *testing.T) {
	const pod = "default/db-0 net1"
	pool := declaredPool("storage", "10.9.0.0/27")
	pool.Spec.KeepAddress = &metav1.Duration{Duration: time.Hour}
	ranges := []ipam.Run{run("10.9.0.2", "10.9.0.30")}
	db := podOn("a", "db-0")
	c := newCluster(newNode("a", nil), newNode("z", nil), pool, askingPool("a", "storage", 1, nil, ranges...), askingPool("z", "storage", 1, nil, ranges...), db)
	recorder := record.NewFakeRecorder(100)
	a := addresses(c, time.Now())
	a.Events = recorder
	lookAt(t, a, "pool:storage")
	first := map[string]string{} // of each node
	for _, b := range getPool(t, c, "storage").Spec.Blocks {
		first[b.Node] = b.First
	}
	report := func(node string) {
		t.Helper()
		s := getState(t, c, node)
		s.Status.AddressRequests[0].Reservations = []v1alpha1.AddressReservation{{Pod: pod, Address: first[node], KeepSeconds: 3600}}
		if err := c.Update(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(when string, want ...string) {
		t.Helper()
		var got []string
		for _, r := range getPool(t, c, "storage").Spec.Reservations {
			got = append(got, r.Address+" "+r.Pod)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("I10: %s: -want +got:\n%s", when, diff)
		}
	}
	report("a")
	lookAt(t, a, "pool:storage")
	kept("the pod runs on a", first["a"]+" "+pod)

	report("z")
	if r := lookAt(t, a, "pool:storage"); r.RequeueAfter != podLook {
		t.Errorf("the controller looks again in %s", r.RequeueAfter)
	}
	kept("z reports it, too", first["a"]+" "+pod)
	want := first["z"] + ", which node z reports for pod " + pod + ", is not kept: the pod is not on that node, and " + first["a"] + " is kept for it"
	if c := meta.FindStatusCondition(getPool(t, c, "storage").Status.Conditions, v1alpha1.ConditionDisputed); c == nil || c.Status != metav1.ConditionTrue || c.Message != want {
		t.Errorf("condition %+v; want %s", c, want)
	}
	if got := strings.Join(eventsOf(recorder), "\n"); !strings.Contains(got, want) {
		t.Errorf("events %q; want %s", got, want)
	}

	if err := c.Delete(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), podOn("z", "db-0")); err != nil {
		t.Fatal(err)
	}
	s := getState(t, c, "a")
	s.Status.AddressRequests[0].Reservations = nil
	if err := c.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	lookAt(t, a, "pool:storage")
	kept("the pod has moved to z", first["z"]+" "+pod)
	if !isPodOn(t.Context(), c, "default/db-0", "z") || isPodOn(t.Context(), c, "default/db-0", "a") || isPodOn(t.Context(), c, "default/db-1", "") || isPodOn(t.Context(), client.Reader(c), "db-0", "z") {
		t.Error("isPodOn")
	}
}
