package conduct

import (
	"math"
	"os/exec"
	"testing"
	"time"

	"github.com/culvert-net/culvert/bench"
)

// burnProcessor keeps a processor busy until the test ends.
func burnProcessor(t *testing.T) {
	t.Helper()
	busy := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = busy.Process.Kill(); _ = busy.Wait() })
}

// TestBackgroundIsNotThePaths: the load that a machine had before the round too is not charged to
// the path, and the evidence names the tasks that caused it. A load of more than a tenth of the
// processors leaves no figure.
func TestBackgroundIsNotThePaths(t *testing.T) {
	w := newWorld(t)
	arm := w.exchange.Arms[0]
	arm.Workload = bench.Workload{Kind: bench.Packets, Engine: "culvert", Size: 64, Seconds: 2, Rate: 500}
	m := &Measurement{Exchange: Exchange{Stations: w.stations, Arms: []bench.Arm{arm}}, Limits: Limits{Repeats: 1, MaxTime: time.Minute}}
	burnProcessor(t)
	r := m.Run(t.Context())
	if len(r.Counted(0)) == 0 {
		t.Fatalf("%+v", r.Runs)
	}
	p, found := r.Processors(0)
	if !found || !(p.Background > 0.5) || p.Gross < p.Net || !(p.Others > 0.5) || len(p.Names) == 0 {
		t.Errorf("%+v", p)
	}
	run := r.Counted(0)[0]
	gross := run
	gross.From.CPU.Background, gross.To.CPU.Background = nil, nil
	net, all := r.Arms[0].Cost(run).NsPerPacket, r.Arms[0].Cost(gross).NsPerPacket
	if busy := run.From.CPU.WasBusy(); busy != math.IsNaN(net) || !busy && !(net < all) {
		t.Errorf("gross %g, net %g, too busy before: %v", all, net, busy)
	}
}

// TestQdiscIsNamed: a queueing discipline of the sender that passes 20 Mb/s is what limits a stream
// over it, and is in the fingerprint.
func TestQdiscIsNamed(t *testing.T) {
	w := newWorld(t)
	if _, err := exec.LookPath("tc"); err != nil {
		t.Skip("tc is not installed")
	}
	run(t, "tc", "-n", w.netns[0], "qdisc", "replace", "dev", "a0", "root", "tbf", "rate", "20mbit", "burst", "20kb", "latency", "50ms")
	if err := DescribeStations(t.Context(), w.stations); err != nil {
		t.Fatal(err)
	}
	arm := w.exchange.Arms[0]
	arm.Workload = bench.Workload{Kind: bench.Stream, Engine: "culvert", Streams: 2, Seconds: 2, Warmup: 0.5}
	for range 8 { // where processors are scarce the stream may be slower
		m := &Measurement{Exchange: Exchange{Stations: w.stations, Arms: []bench.Arm{arm}}, Limits: Limits{Repeats: 1, MaxTime: time.Minute, Rough: true}}
		m.Prepare()
		r := m.Run(t.Context())
		i, _ := findInterface(r.Machines[0], "a0")
		if i.QdiscMbps != 20 || r.Arms[0].QdiscMbps != 20 {
			t.Fatalf("%+v, %+v", i, r.Arms[0].Bounds)
		}
		for _, run := range r.Counted(0) {
			if bench.Limits(run, r.Arms[0])[0].What == "qdisc" {
				return
			}
			t.Logf("%g Gb/s, %+v", run.Gbps, run.Limits)
		}
	}
	t.Error("no run names the queueing discipline")
}
