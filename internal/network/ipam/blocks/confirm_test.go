package blocks

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// I10: a node's report of an address for another node's pod does not end the reservation of the pod's
// own address. That holds while the pod runs and after it has ended. Once the pod is on the node, its
// report counts.
func TestI10KeptAddressOfAnotherNodesPod(t *testing.T) {
	var endings Endings
	now, db := time.Unix(1e9, 0), statefulPod("db-0")
	p := Pool{Network: "n", Blocks: []Block{{Run: run("10.0.0.0-10.0.0.9"), Node: "a", UID: "a"}, {Run: run("10.0.0.10-10.0.0.19"), Node: "z", UID: "z"}}}
	on := "a"
	look := func(when string, want, disputed []string, demands ...Demand) {
		t.Helper()
		confirmed, out := Confirm(p, demands, func(pod, node string) bool { return pod == "default/db-0" && node == on })
		p = Reserve(p, &endings, confirmed, now)
		if diff := cmp.Diff(want, showReservations(p)); diff != "" {
			t.Errorf("I10: %s: -want +got:\n%s", when, diff)
		}
		if diff := cmp.Diff(disputed, out.Disputed); diff != "" || out.Count != len(disputed) {
			t.Errorf("%s: %d left out, disputed -want +got:\n%s", when, out.Count, diff)
		}
	}
	own, foreign := keeps("a", "10.0.0.5", db, time.Hour), keeps("z", "10.0.0.12", db, time.Hour)
	refusal := []string{"10.0.0.12, which node z reports for pod default/db-0 net1, is not kept: the pod is not on that node, and 10.0.0.5 is kept for it"}
	look("the pod runs", []string{"10.0.0.5 default/db-0 net1"}, nil, own)
	look("beside its own report", []string{"10.0.0.5 default/db-0 net1"}, refusal, own, foreign)
	on = ""
	look("the pod has ended", []string{"10.0.0.5 default/db-0 net1 runs"}, refusal, foreign)
	look("it is still held", []string{"10.0.0.5 default/db-0 net1"}, nil, own)
	on = "z"
	look("the pod has moved", []string{"10.0.0.12 default/db-0 net1"}, nil, foreign)
}

// I10: reports of pods that are not on the node take no places of kept addresses, whatever namespaces
// the node makes up for them.
func TestI10MadeUpPodsKeepNothing(t *testing.T) {
	p := Pool{Network: "n", Blocks: []Block{{Run: run("10.0.0.0-10.0.7.255"), Node: "a", UID: "a"}, {Run: run("10.1.0.0-10.1.7.255"), Node: "z", UID: "z"}}}
	report := func(node, first string, pod func(i int) string) Demand {
		d, next := Demand{Node: node, UID: node}, addr(first)
		for i := range mostReservations {
			d.Reservations = append(d.Reservations, Reservation{Pod: pod(i) + " net1", Addr: next, For: time.Hour})
			next = next.Next()
		}
		return d
	}
	demands := []Demand{
		report("a", "10.0.0.0", func(i int) string { return fmt.Sprint("default/db-", i) }),
		report("z", "10.1.0.0", func(i int) string { return fmt.Sprint("made-up-", i, "/x") }),
	}
	confirmed, out := Confirm(p, demands, func(_, node string) bool { return node == "a" })
	got := Reserve(p, &Endings{}, confirmed, time.Unix(1e9, 0))
	foreign := func(r Reservation) bool { return p.isOwn(demands[1], r.Addr) }
	if len(got.Reservations) != mostReservations || slices.ContainsFunc(got.Reservations, foreign) || out.Count != mostReservations {
		t.Errorf("I10: %d are kept, %d left out", len(got.Reservations), out.Count)
	}
	if all := Reserve(p, &Endings{}, demands, time.Unix(1e9, 0)); !slices.ContainsFunc(all.Reservations, foreign) {
		t.Error("without Confirm they take no places either")
	}
}
