package reconcile_test

import (
	"context"
	"testing"
	"time"
)

// P1: readiness waits for a NIC that host.yaml names and that is not there
// yet, and comes with the first pass that left nothing to do.
func TestReadyWhenNothingIsLeftToDo(t *testing.T) {
	const good = "pfs:\n- {name: enp1s0, vfs: 2}\n"
	h := boot(t, good+"- {name: late0, vfs: 2}\n")
	ctx, cancel := context.WithCancel(t.Context())
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() { ended <- h.Reconciler.Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
		t.Error("ready, and late0 is not there")
	case <-time.After(500 * time.Millisecond):
	}
	h.want(t, good) // late0 comes, or is not wanted any more: the wish is now all there
	pfs, err := h.k.PFs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.k.Cable(pfs[0].PCI, true) // an event, to wake it
	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Error("not ready, and nothing is left to do")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
