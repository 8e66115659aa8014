package claim_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/vf"
)

// A pod that is deleted without grace is gone from the API server before the node has ended its claim.
// The scheduler gives its VF to the next claim, which waits for it.
func TestAClaimWaitsForTheOneBefore(t *testing.T) {
	h := newHost(t)
	h.patience = time.Minute
	h.start()
	before, next := h.allocate("before", 0), h.allocate("next", 0)
	if _, errs := h.prepare(before); errs["before"] != "" {
		t.Fatal(errs)
	}
	if err := h.add(0); err != nil {
		t.Fatal(err)
	}
	looks := make(chan struct{})
	h.looked = sync.OnceFunc(func() { close(looks) })
	ended := make(chan map[string]string, 1)
	go func() {
		select {
		case <-looks:
		case <-t.Context().Done():
		}
		ended <- h.unprepare(before)
	}()
	if _, errs := h.prepare(next); errs["next"] != "" {
		t.Fatalf("the next claim: %s", errs["next"])
	}
	if errs := <-ended; errs[before.UID] != "" {
		t.Errorf("Unprepare: %v", errs)
	}
	if r := h.record(0); r.Phase != vf.PhasePrepared || r.Claim.Name != "next" {
		t.Errorf("VF 0 is %s for %s", r.Phase, r.Holder())
	}
}

// A claim waits for no VF that a claim keeps.
func TestAClaimDoesNotWaitForEver(t *testing.T) {
	h := newHost(t)
	before, next := h.allocate("before", 0), h.allocate("next", 0)
	h.prepare(before)
	if _, errs := h.prepare(next); !strings.Contains(errs["next"], "held by claim d/before: it is being given back: the kubelet tries again") {
		t.Errorf("the next claim: %q", errs["next"])
	}
}
