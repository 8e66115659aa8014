package bench

import (
	"strings"
	"testing"
)

// Bins are ten for each factor of ten, and each begins where the one before ends.
func TestBins(t *testing.T) {
	for us, want := range map[float64]int{0: 0, 0.5: 0, 1.2: 0, 1.3: 1, 10.1: 10, 99: 19, 101: 20, 1e6 + 1: 60, 1e30: mostBins - 1} {
		if got := BinOf(us); got != want {
			t.Errorf("%g us is in bin %d, want %d", us, got, want)
		}
	}
	for bin := range mostBins - 1 {
		if got := BinOf((BinFrom(bin) + BinFrom(bin+1)) / 2); got != bin {
			t.Errorf("the middle of bin %d is in bin %d", bin, got)
		}
	}
}

// A result whose load or bins cannot be is refused.
func TestLoadsAndBinsAreChecked(t *testing.T) {
	good := func() Result {
		return Result{
			Schema: Schema, Machines: []Machine{{Name: "a"}},
			Arms: []Arm{{Name: "VF", Path: Path{From: End{Machine: "a"}, To: End{Machine: "a"}}, Workload: Workload{Kind: Request, Load: 0.5}, Bounds: Bounds{ThroughputGbps: 1}}},
			Runs: []Run{{Seconds: 1, Load: &Load{Gbps: 0.5}, Delays: &Delays{Bins: make([]uint64, mostBins)}}},
		}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Result){
		"workload.load":  func(r *Result) { r.Arms[0].Workload.Load = -1 },
		"throughputGbps": func(r *Result) { r.Arms[0].ThroughputGbps = -1 },
		"load.gbps":      func(r *Result) { r.Runs[0].Load.Gbps = -1 },
		"delays.bins":    func(r *Result) { r.Runs[0].Delays.Bins = make([]uint64, mostBins+1) },
	} {
		r := good()
		change(&r)
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
