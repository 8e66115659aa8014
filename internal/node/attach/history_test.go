package attach_test

import (
	"slices"
	"testing"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// The ledger's events of a lease name the VF, its owner and pod, the network and what the owner got.
// The event of the end names the last owner, whose lease is over by then.
func TestEventsNameTheOwner(t *testing.T) {
	_, n := newNode(t)
	req := everything(t)
	req.PodUID, req.Network = "pod-uid", "default/blue"
	rec, err := n.Engine.Attach(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Resets.Detach(t.Context(), req.Owner); err != nil {
		t.Fatal(err)
	}
	n.VFs.Wait()
	var got []journal.Event
	err = n.Ledger.View(func(tx *journal.Tx) error {
		for _, e := range tx.Events(0) {
			if e.Reason == "Attached" || e.Reason == "Detached" {
				got = append(got, e)
			}
		}
		return nil
	})
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	for i, phase := range []vf.Phase{vf.PhaseAttached, vf.PhaseFree} {
		e := got[i]
		var addresses []string
		for _, a := range e.Addresses {
			addresses = append(addresses, a.String())
		}
		if e.Phase != phase || e.VF != rec.ID || e.Owner != req.Owner || e.PodUID != "pod-uid" || e.Network != "default/blue" ||
			e.MAC != rec.Lease.LinkMAC || len(addresses) == 0 || !slices.Equal(addresses, addressesOf(rec)) {
			t.Errorf("%s: %+v", phase, e)
		}
	}
	if got[0].Settings == "" || got[1].Settings != "" {
		t.Errorf("settings %q, then %q", got[0].Settings, got[1].Settings)
	}
}
