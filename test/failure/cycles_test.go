package failure

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/fake"
)

// usage has the resources that a process may leak.
type usage struct {
	heap       uint64 // bytes in use after a collection
	goroutines int
	files      int
	ledger     int64 // bytes
}

func (w *world) usage(t *testing.T) usage {
	t.Helper()
	runtime.GC()
	runtime.GC() // frees the memory that finalizers have released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(w.path)
	if err != nil {
		t.Fatal(err)
	}
	return usage{m.HeapInuse, runtime.NumGoroutine(), len(files), st.Size()}
}

// I2: ten thousand attaches and detaches leave nothing behind: not in the
// kernel, not in the ledger, not in memory.
func TestI2TenThousandCycles(t *testing.T) {
	cycles := 10000
	if isSample() {
		cycles = 200
	}
	w := made(t, fake.IGB, fastDir(t))
	defer w.close()
	cycle := func(n int) {
		for i := range n {
			a := []attachment{podA, podB, podC}[i%3]
			must(w, w.add(a))
			must(w, w.del(a))
			if i%100 == 0 {
				w.pass()
			}
		}
	}
	cycle(cycles / 5)
	before := w.usage(t)
	cycle(cycles - cycles/5)
	after := w.usage(t)
	// Goroutines of the last cycle end a moment after it.
	for end := time.Now().Add(30 * time.Second); (after.goroutines > before.goroutines || after.files > before.files) && time.Now().Before(end); after = w.usage(t) {
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("%d cycles: before %+v, after %+v", cycles, before, after)
	if after.heap > before.heap+before.heap/4+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes", before.heap, after.heap)
	}
	if after.goroutines > before.goroutines || after.files > before.files {
		t.Errorf("goroutines %d -> %d, files %d -> %d", before.goroutines, after.goroutines, before.files, after.files)
	}
	if after.ledger > 1<<20 {
		t.Errorf("the ledger has %d bytes", after.ledger)
	}
	w.asNew()
}
