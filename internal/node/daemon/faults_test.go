package daemon

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/vf"
)

// An error that is counted between two reads is in the status, and pollErrors reports the change
// once.
func TestErrorsArePolled(t *testing.T) {
	s := served(t, t.TempDir())
	pf := s.node.Inventory.PFs()[0]
	timeouts, changes := uint64(4), 0
	read := func(pfs []vf.PF) map[vf.PCIAddr]vf.ErrorCounts {
		timeouts = min(timeouts+1, 6)
		return map[vf.PCIAddr]vf.ErrorCounts{pfs[0].PCI: {TxTimeouts: timeouts}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ticks := make(chan time.Time)
	var g errgroup.Group
	g.Go(func() error { s.pollErrors(ctx, ticks, read, func() { changes++ }); return nil })
	for range 4 {
		ticks <- time.Time{}
	}
	cancel()
	_ = g.Wait()
	if changes != 1 {
		t.Errorf("%d changes, want 1", changes)
	}
	n, err := s.status.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := s.node.Inventory.PFs()[0].Faults; len(got) != 1 || got[0] != vf.FaultTransmitQueue || len(n.PFs[0].Faults) != 1 {
		t.Errorf("the inventory has the faults %v, the status %v", got, n.PFs[0].Faults)
	}
	found := false
	for _, p := range n.Problems {
		found = found || p.Object == "transmit queues of PF "+pf.Label()
	}
	if !found || n.PFs[0].Errors != (vf.ErrorCounts{TxTimeouts: 1}) {
		t.Errorf("problems %+v, errors %+v", n.Problems, n.PFs[0].Errors)
	}
}
