package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/screen"
)

// makeLoaded returns a result of questions on the idle path and beside a load, and of datagrams with
// a loss.
func makeLoaded() bench.Result {
	path := bench.Path{Ends: "pod-pod", Network: "veth", Place: "same node", From: bench.End{Machine: "n1", Interface: "a0"}, To: bench.End{Machine: "n1", Interface: "a1"}}
	ask := bench.Workload{Kind: bench.Request, Engine: "culvert", UDP: true, Seconds: 1, Rate: 1000, DSCP: 46}
	beside := ask
	beside.Load = 0.5
	r := bench.Result{
		Schema: bench.Schema, Machines: []bench.Machine{{Name: "n1"}},
		Arms: []bench.Arm{
			{Name: "veth idle", Path: path, Workload: ask},
			{Name: "veth load 50 %", Path: path, Workload: beside, Bounds: bench.Bounds{ThroughputGbps: 0.04}},
			{Name: "veth udp", Path: path, Workload: bench.Workload{Kind: bench.Datagram, Engine: "culvert", Rate: 200e6, Seconds: 1}},
		},
	}
	again := uint64(3)
	for range 6 {
		idle := bench.Run{Arm: 0, Seconds: 1, Packets: 1000, Sent: 1000, PPS: 1000, Delays: &bench.Delays{Count: 1000, Min: 90, Mean: 100, P50: 100, P90: 110, P99: 120, P999: 125, Max: 130, Bins: make([]uint64, 21)}}
		idle.Delays.Bins[bench.BinOf(95)], idle.Delays.Bins[bench.BinOf(105)] = 400, 600
		loaded := idle
		loaded.Arm, loaded.Load = 1, &bench.Load{Gbps: 0.0196, Retransmits: &again}
		lossy := bench.Run{Arm: 2, Seconds: 1, Bytes: 22500000, Packets: 15480, Sent: 17200, Lost: 1720, Gbps: 0.18, PPS: 15480}
		r.Runs = append(r.Runs, idle, loaded, lossy)
	}
	return r
}

// The report of questions has the load beside them as it was asked for and carried, their histogram,
// and the part that datagrams lost.
func TestQuestionsOnTheReport(t *testing.T) {
	r := makeLoaded()
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	text := Text(r, screen.Look{})
	for _, want := range []string{"veth load 50 %  50 % of 0.0400 Gb/s  0.0200 Gb/s  0.0196 Gb/s            3", "1720, 10 %", "n=6); beside TCP of 50 % 100 us."} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
	var page bytes.Buffer
	if err := HTML(&page, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"TCP beside the questions", "How long questions took: culvert request, 1000 a second, DSCP 46, UDP, 1 s", "How long questions took: culvert request, 1000 a second, DSCP 46, 50 % load",
		"veth idle: most from 100 to 126 us",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	if got := describeLoad(r.Arms[2].Workload); got != "culvert datagram, 200 Mb/s, 1 s" {
		t.Error(got)
	}
	if parts := sumBins(r, 0); len(parts) != 21 || parts[19] != 40 || parts[20] != 60 {
		t.Errorf("%v", parts)
	}
}
