package bench

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// work is a machine's evidence: so many seconds of work in a window of ten.
func work(seconds float64) Evidence {
	return Evidence{CPU: CPUUse{Seconds: 10, User: seconds / 4, System: seconds / 4, IRQ: seconds / 4, SoftIRQ: seconds / 4, Steal: 3, Idle: 40}}
}

func between(from, to string) Arm {
	return Arm{Path: Path{From: End{Machine: from, Interface: "net1"}, To: End{Machine: to, Interface: "net1"}}}
}

func TestCost(t *testing.T) {
	run := Run{Seconds: 10, Bytes: 10e9, Packets: 2e6, From: work(4), To: work(6)}
	for _, c := range []struct {
		name string
		arm  Arm
		run  Run
		want Cost
	}{
		{"two machines", between("a", "b"), run, Cost{SecondsPerGB: 1, PerGbps: 12.5, NsPerPacket: 5000}},
		{"one machine", between("a", "a"), run, Cost{SecondsPerGB: 0.4, PerGbps: 5, NsPerPacket: 2000}},
		{"a window of half", between("a", "a"), Run{Seconds: 5, Bytes: 10e9, Packets: 2e6, From: work(4)}, Cost{SecondsPerGB: 0.2, PerGbps: 2.5, NsPerPacket: 1000}},
		{"nothing arrived", between("a", "b"), Run{Seconds: 10, From: work(4), To: work(6)}, Cost{math.NaN(), math.NaN(), math.NaN()}},
		{"one end not seen", between("a", "b"), Run{Seconds: 10, Bytes: 1, Packets: 1, From: work(4)}, Cost{math.NaN(), math.NaN(), math.NaN()}},
	} {
		got := c.arm.Cost(c.run)
		if diff := cmp.Diff(c.want, got, nearly); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.name, diff)
		}
	}
}

var nearly = cmp.Comparer(func(a, b float64) bool {
	return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-9*math.Abs(a)
})

// TestValues: void and discarded runs count for nothing; a run that carried nothing
// counts as that, and one without delays has none.
func TestValues(t *testing.T) {
	stream, question := between("a", "b"), between("a", "b")
	stream.Workload.Kind, question.Workload.Kind = Stream, Request
	r := Result{Arms: []Arm{stream, question}, Runs: []Run{
		{Arm: 0, Gbps: 1, Discard: true}, {Arm: 0, Gbps: 2}, {Arm: 0, Gbps: 3, Void: "the other way's counters rose"}, {Arm: 0},
		{Arm: 1, Delays: &Delays{P50: 7, P99: 9}}, {Arm: 1},
	}}
	for name, want := range map[string][]float64{"throughput": {2, 0}, "p50": {7}, "p99": {9}, "cpu": nil} {
		arm := 0
		if name[0] == 'p' {
			arm = 1
		}
		for _, m := range Metrics(r.Arms[arm].Workload.Kind) {
			if m.Name == name {
				if diff := cmp.Diff(want, r.Values(arm, m)); diff != "" {
					t.Errorf("%s: -want +got:\n%s", name, diff)
				}
			}
		}
	}
}

// TestMetricNames: every name is some kind's, and every kind's is listed.
func TestMetricNames(t *testing.T) {
	listed, seen := map[string]bool{}, map[string]bool{}
	for _, n := range MetricNames() {
		listed[n] = true
	}
	for kind, main := range map[Kind]string{Stream: "throughput", Datagram: "throughput", Packets: "pps", Request: "p50", Echo: "p50"} {
		if got := (Arm{Workload: Workload{Kind: kind}}).Main().Name; got != main {
			t.Errorf("%s is about %s, want %s", kind, got, main)
		}
		for _, m := range Metrics(kind) {
			seen[m.Name] = true
		}
	}
	if diff := cmp.Diff(listed, seen); diff != "" {
		t.Errorf("-listed +seen:\n%s", diff)
	}
}
