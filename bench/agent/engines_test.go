package agent

import (
	"slices"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
)

// The agent drives every engine of the list, and its errors and answers follow the list.
func TestEveryEngineIsDriven(t *testing.T) {
	a := &agent{}
	for _, e := range a.listTools() {
		if e.version == nil || e.receive == nil || e.send == nil {
			t.Errorf("%s is listed, and the agent cannot drive it", e.Name)
		}
		for _, k := range []bench.Kind{bench.Stream, bench.Datagram, bench.Request, bench.Packets, bench.Echo} {
			_, err := a.findTool(bench.Workload{Engine: e.Name, Kind: k, Seconds: 1})
			if (err == nil) != slices.Contains(e.Kinds, k) {
				t.Errorf("%s for %s: %v", e.Name, k, err)
			}
		}
		if got := Together(e.Name, "1.2", "1.3"); got != e.SenderOnly {
			t.Errorf("two versions of %s together: %v", e.Name, got)
		}
	}
	if len(a.listTools()) != len(engine.Engines()) {
		t.Errorf("%d engines are driven", len(a.listTools()))
	}
}
