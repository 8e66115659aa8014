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

func betweenMachines(from, to string) Arm {
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
		{"two machines", betweenMachines("a", "b"), run, Cost{SecondsPerGB: 1, PerGbps: 12.5, NsPerPacket: 5000}},
		{"one machine", betweenMachines("a", "a"), run, Cost{SecondsPerGB: 0.4, PerGbps: 5, NsPerPacket: 2000}},
		{"a window of half", betweenMachines("a", "a"), Run{Seconds: 5, Bytes: 10e9, Packets: 2e6, From: work(4)}, Cost{SecondsPerGB: 0.2, PerGbps: 2.5, NsPerPacket: 1000}},
		{"nothing arrived", betweenMachines("a", "b"), Run{Seconds: 10, From: work(4), To: work(6)}, Cost{math.NaN(), math.NaN(), math.NaN()}},
		{"one end not seen", betweenMachines("a", "b"), Run{Seconds: 10, Bytes: 1, Packets: 1, From: work(4)}, Cost{math.NaN(), math.NaN(), math.NaN()}},
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

// TestValues: void and discarded runs do not count. A run that carried nothing has the value 0, and
// a run without delays has no value.
func TestValues(t *testing.T) {
	stream, question := betweenMachines("a", "b"), betweenMachines("a", "b")
	stream.Workload.Kind, question.Workload.Kind = Stream, Request
	r := Result{Arms: []Arm{stream, question}, Runs: []Run{
		{Arm: 0, Gbps: 1, Discard: true}, {Arm: 0, Gbps: 2}, {Arm: 0, Gbps: 3, Void: "the other way's counters rose"}, {Arm: 0},
		{Arm: 1, Delays: &Delays{Count: 1000, P50: 7, P99: 9}}, {Arm: 1},
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

// TestMetricNames: the listed names are those of the metrics of all kinds of workload.
func TestMetricNames(t *testing.T) {
	listed, seen := map[string]bool{}, map[string]bool{}
	for _, n := range MetricNames() {
		listed[n] = true
	}
	for kind, main := range map[Kind]string{Stream: "throughput", Datagram: "throughput", Packets: "pps", Request: "p50", Connect: "requests", Echo: "p50"} {
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

// A percentile from 0.9 on needs ten round trips above it, and the lost questions must be among
// them.
func TestPercentile(t *testing.T) {
	run := func(count, lost, sent uint64) Run {
		return Run{Lost: lost, Sent: sent, Delays: &Delays{Count: count, Min: 1, P50: 5, P90: 9, P99: 99, P999: 999, Max: 1000}}
	}
	none := math.NaN()
	for name, c := range map[string]struct {
		run  Run
		want []float64 // least, p50, p75 (which is not kept), p90, p99, p999, max
	}{
		"three":              {run(3, 0, 3), []float64{1, 5, none, none, none, none, 1000}},
		"a hundred":          {run(100, 0, 100), []float64{1, 5, none, 9, none, none, 1000}},
		"almost a thousand":  {run(999, 0, 999), []float64{1, 5, none, 9, none, none, 1000}},
		"a thousand":         {run(1000, 0, 1000), []float64{1, 5, none, 9, 99, none, 1000}},
		"ten thousand":       {run(10000, 0, 10000), []float64{1, 5, none, 9, 99, 999, 1000}},
		"lost are among it":  {run(10000, 50, 10000), []float64{1, 5, none, 9, 99, 999, 1000}},
		"lost were left out": {run(9950, 50, 10000), []float64{1, 5, none, none, none, none, 1000}},
		"no question":        {Run{}, []float64{none, none, none, none, none, none, none}},
	} {
		for i, q := range []float64{0, 0.5, 0.75, 0.9, 0.99, 0.999, 1} {
			if got := c.run.Percentile(q); !nearlyEqual(got, c.want[i]) {
				t.Errorf("%s: %g: %g, want %g", name, q, got, c.want[i])
			}
		}
	}
}

func nearlyEqual(a, b float64) bool { return cmp.Equal(a, b, nearly) }

// A path without a count of retransmits leaves the sum of all paths unknown, in every order.
func TestSumOfUnknownRetransmits(t *testing.T) {
	one, two := uint64(1), uint64(2)
	for _, each := range [][]Run{{{}, {Retransmits: &one}}, {{Retransmits: &one}, {}}, {{Retransmits: &one}, {}, {Retransmits: &two}}} {
		if got := Sum(each).Retransmits; got != nil {
			t.Errorf("%d", *got)
		}
	}
	if got := Sum([]Run{{Retransmits: &one}, {Retransmits: &two}}).Retransmits; got == nil || *got != 3 {
		t.Errorf("%v", got)
	}
}
