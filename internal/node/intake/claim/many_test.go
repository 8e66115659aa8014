package claim_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	drapb "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/culvert-net/culvert/internal/vf"
)

// kept is what a driver keeps: bytes of the heap, goroutines, files of claims and bytes of the ledger.
type kept struct {
	heap              uint64
	goroutines, files int
	ledger            int64
}

func (h *host) measureKept() (out kept) {
	h.t.Helper()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	for _, dir := range []string{"cdi", "metadata"} {
		files, err := filepath.Glob(filepath.Join(h.dir, dir, "*"))
		if err != nil {
			h.t.Fatal(err)
		}
		out.files += len(files)
	}
	st, err := os.Stat(filepath.Join(h.dir, "ledger.db"))
	if err != nil {
		h.t.Fatal(err)
	}
	out.heap, out.goroutines, out.ledger = m.HeapAlloc, runtime.NumGoroutine(), st.Size()
	return out
}

// liveClaims prepares and ends claims of one pod after the other. Each pod has four claims at once: two are
// attached by a network, and two are of user space.
func (h *host) liveClaims(first, end int) {
	h.t.Helper()
	for i := first; i < end; i += 4 {
		var all []*drapb.Claim
		for n := range 4 {
			all = append(all, h.allocate(fmt.Sprint("c", i+n), n))
		}
		_, errs := h.prepare(all...)
		for name, text := range errs {
			if text != "" {
				h.t.Fatalf("claim %s: %s", name, text)
			}
		}
		if err := h.add(0); err != nil {
			h.t.Fatal(err)
		}
		for uid, text := range h.unprepare(all...) {
			if text != "" {
				h.t.Fatalf("end of claim %s: %s", uid, text)
			}
		}
		for _, c := range all {
			delete(h.cluster.claims, "d/"+c.Name)
		}
	}
}

// I2: a thousand claims leave nothing behind: no file, goroutine or memory. Of the API server each is asked
// once. The race detector makes it five times slower, so the short test has 200.
func TestI2ThousandClaims(t *testing.T) {
	h := newHost(t)
	few, many := 200, 1000
	if testing.Short() {
		few, many = 40, 200
	}
	h.liveClaims(0, few)
	before := h.measureKept()
	h.liveClaims(few, many)
	after := h.measureKept()
	t.Logf("%d claims: %+v, %d claims: %+v", few, before, many, after)
	if after.files != before.files || after.goroutines > before.goroutines+2 || after.heap > before.heap+before.heap/4+1<<20 || after.ledger > 4<<20 {
		t.Errorf("%d claims: %+v, %d claims: %+v", few, before, many, after)
	}
	if h.cluster.asked != many {
		t.Errorf("the API server was asked %d times", h.cluster.asked)
	}
	for i := range 4 {
		if r := h.record(i); r.Phase != vf.PhaseFree || r.Claim != nil {
			t.Errorf("VF %d is %s for %s", i, r.Phase, r.Claim)
		}
	}
}
