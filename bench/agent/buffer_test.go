package agent

import (
	"testing"

	"github.com/culvert-net/culvert/bench"
)

// TestIperf2WindowIsReadBack: the agent reads the buffer back from the kernel, since iperf 2
// accepts a smaller one and its CSV does not have it.
func TestIperf2WindowIsReadBack(t *testing.T) {
	needProgram(t, "iperf")
	p := newPair(t)
	w := bench.Workload{Kind: bench.Stream, Engine: "iperf2", Seconds: 2, Streams: 2, Window: 1 << 30}
	run := measureRun(t, p, w)
	for name, got := range map[string]int{"sends": run.From.Buffer, "receives": run.To.Buffer} {
		if got <= 0 || got/2 >= w.Window {
			t.Errorf("the end that %s has a buffer of %d bytes for a window of %d", name, got, w.Window)
		}
	}
}
