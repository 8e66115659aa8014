package conduct

import (
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
// the path, and the evidence names the tasks that caused it.
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
	if !found || !(p.Background > 0.5) || !(p.Gross >= p.Net) || !(p.Others > 0.5) || len(p.Names) == 0 {
		t.Errorf("%+v", p)
	}
	run := r.Counted(0)[0]
	gross := run
	gross.From.CPU.Background, gross.To.CPU.Background = nil, nil
	if gross, net := r.Arms[0].Cost(gross), r.Arms[0].Cost(run); !(net.NsPerPacket < gross.NsPerPacket) {
		t.Errorf("gross %+v, net %+v", gross, net)
	}
}
