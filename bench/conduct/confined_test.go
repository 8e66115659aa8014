package conduct

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
)

// Every engine runs in agents with the capabilities that the pods of a cluster have (place,
// TestCluster/Opens): none but these four, and none to gain. Packets are sent and counted by the same
// mechanisms as without bounds.
func TestRunWithTheCapabilitiesOfPods(t *testing.T) {
	w := newWorld(t)
	confined := *w
	confined.stations = nil
	for i := range w.netns {
		// setpriv of Debian 12 knows CAP_BPF by its number alone.
		confined.stations = append(confined.stations, confined.openBy(t, i,
			"#!/bin/sh\nexec setpriv --no-new-privs --inh-caps=-all --bounding-set=-all,+net_admin,+net_raw,+sys_nice,+cap_39 "+os.Args[0]+" \"$@\"\n"))
	}
	if err := DescribeStations(t.Context(), confined.stations); err != nil {
		t.Fatal(err)
	}
	confined.exchange.Stations = confined.stations
	one := func(w *world, engine string, kind bench.Kind) bench.Run {
		load := bench.Workload{Kind: kind, Engine: engine, Seconds: 1}
		if kind == bench.Echo { // one ping a second ends with its answer, before the window does
			load.Seconds, load.Rate = 2, 5
		}
		w.exchange.Arms = []bench.Arm{{Name: engine, Path: w.exchange.Arms[0].Path, Workload: load}}
		return w.goodRun(t, 0)
	}
	for _, e := range engine.Engines() {
		kinds := e.Kinds[:1]
		switch e.Name {
		case engine.Own:
			kinds = e.Kinds
		case engine.Pktgen:
			continue // a pod cannot load the kernel's module, with any of these capabilities
		case engine.Testpmd:
			continue // it drives a VF, and these ends have none
		}
		for _, kind := range kinds {
			bound := one(&confined, e.Name, kind)
			if kind != bench.Packets {
				continue
			}
			free := one(w, e.Name, kind)
			if diff := cmp.Diff([]bench.Mechanism{free.From.Mechanism, free.To.Mechanism}, []bench.Mechanism{bound.From.Mechanism, bound.To.Mechanism}); diff != "" {
				t.Errorf("the mechanisms -without bounds +with them:\n%s", diff)
			}
		}
	}
}
