package attach_test

import (
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// stateful is a request of a sandbox of pod default/db-0, which keeps its address.
func stateful(t *testing.T, sandbox int) attach.Request {
	t.Helper()
	r := from(t, r0, sandbox)
	r.Owner.Name, r.KeepAddress = "default/db-0", time.Hour
	return r
}

// I4: a pod of a StatefulSet gets its address again on the other node, although that is in the
// first node's block. No other pod gets the address until KeepAddress is over; then any pod can get
// it.
func TestI4StatefulPodKeepsItsAddress(t *testing.T) {
	p := newPair(t)
	on := func(node int, r attach.Request) string {
		t.Helper()
		rec, err := p.nodes[node].Engine.Attach(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return rec.Lease.Wanted.Addresses[0].Prefix.Addr().String()
	}
	off := func(node int, r attach.Request) {
		t.Helper()
		if err := p.nodes[node].Resets.Detach(t.Context(), r.Owner); err != nil {
			t.Fatal(err)
		}
		p.round()
	}
	first := on(0, stateful(t, 1))
	p.round()
	for i := range 2 {
		if got := on(i, from(t, r0, 10+i)); got == first {
			t.Errorf("I4: another pod on node %d has %s", i, got)
		}
	}
	off(0, stateful(t, 1))
	if got := on(1, stateful(t, 2)); got != first {
		t.Errorf("on the other node the pod has %s, and had %s", got, first)
	}
	off(1, stateful(t, 2))
	if got := on(0, stateful(t, 3)); got != first {
		t.Errorf("back on the first node the pod has %s, and had %s", got, first)
	}
	off(0, stateful(t, 3))
	p.mu.Lock()
	kept := len(p.pool.Reservations)
	p.now = p.now.Add(2 * time.Hour)
	p.mu.Unlock()
	p.round()
	if after := len(p.pool.Reservations); kept != 1 || after != 0 {
		t.Errorf("%d addresses are kept, and %d after their time", kept, after)
	}
}

// If another attachment has got the kept address of a pod, the pod starts with another address.
func TestKeptAddressThatIsHeld(t *testing.T) {
	p := newPair(t)
	r := stateful(t, 1)
	rec, err := p.nodes[0].Engine.Attach(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	p.round()
	twin := stateful(t, 2) // of the same name, before the first has ended
	got, err := p.nodes[0].Engine.Attach(t.Context(), twin)
	if err != nil || got.Lease.Wanted.Addresses[0] == rec.Lease.Wanted.Addresses[0] {
		t.Errorf("%v %v", got.Lease.Wanted.Addresses, err)
	}
	_ = p.nodes[0].Ledger.View(func(tx *journal.Tx) error {
		for _, a := range tx.AddressesOf("") {
			if a.Keep != time.Hour || a.Owner.Kind != vf.OwnerPod {
				t.Errorf("the ledger has %+v", a)
			}
		}
		return nil
	})
}
