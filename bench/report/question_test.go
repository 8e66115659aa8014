package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	for _, want := range []string{"beside TCP of 50 %  50 % of 0.0400 Gb/s  0.0200 Gb/s  0.0196 Gb/s            3", "1720, 10 %", "Beside TCP of 50 %: 100 us."} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
	var page bytes.Buffer
	if err := HTML(&page, r, ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"TCP beside the questions", "How long questions took: culvert request, 1000 a second, DSCP 46, UDP, 1 s", "How long questions took: culvert request, 1000 a second, DSCP 46, 50 % load",
		"veth: most from 100 to 126 us",
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

// makeRatios returns a result with a printed figure of each unit that is not of a main metric.
func makeRatios() bench.Result {
	path := func(network string) bench.Path {
		return bench.Path{Ends: "pod-pod", Network: network, From: bench.End{Machine: "n1", Name: "a", Interface: "a0"}, To: bench.End{Machine: "n2", Name: "b", Interface: "b0"}}
	}
	w := bench.Workload{Kind: bench.Packets, Engine: "culvert", Size: 64}
	r := bench.Result{
		Schema: bench.Schema, Machines: []bench.Machine{{Name: "n1"}, {Name: "n2"}},
		Arms: []bench.Arm{{Name: "VF", Path: path("VF"), Workload: w}, {Name: "overlay", Path: path("overlay"), Workload: w}, {Name: "both", Path: path("VF"), Also: []bench.Path{path("VF")}, Workload: w}},
		Printed: []bench.Figure{
			{Name: "sent", Arm: "VF", Value: 3.5, Unit: bench.SentUnit},
			{Name: "received", Arm: "VF", Base: "overlay", Value: 4, Unit: bench.RatioUnit},
			{Name: "sent", Arm: "VF", Base: "overlay", Value: 12, Unit: bench.SentRatioUnit},
			{Name: "each", Arm: "both", Value: 5.6, Unit: bench.EachUnit},
			{Name: "no base", Arm: "VF", Value: 7.77, Unit: bench.RatioUnit},
			{Name: "CPU, at most", Arm: "VF", Value: 35, Unit: bench.CPUUnit},
		},
	}
	for range 6 {
		r.Runs = append(r.Runs, bench.Run{Arm: 0, Seconds: 2, Sent: 14e6, PPS: 2e6, Packets: 4e6, From: bench.Evidence{CPU: bench.CPUUse{Seconds: 2, System: 1.4, Idle: 0.6}}, To: bench.Evidence{CPU: bench.CPUUse{Seconds: 2, User: 1, Idle: 1}}},
			bench.Run{Arm: 1, Seconds: 2, Sent: 2e6, PPS: 1e6, Packets: 2e6},
			bench.Run{Arm: 2, Seconds: 2, PPS: 3e6, Packets: 6e6, Shares: []bench.Share{{Seconds: 2, PPS: 2e6}, {Seconds: 2, PPS: 1e6}}})
	}
	return r
}

// A printed ratio stands beside that of the two arms here, of what arrived or of what was sent, and a
// printed share beside the least one.
func TestPrintedRatios(t *testing.T) {
	r := makeRatios()
	want := []beside{
		{Name: "sent", Printed: "3.50 Mpps sent", Arm: "VF", Here: "7 Mpps sent", Ratio: "2.00x"},
		{Name: "received", Printed: "4 x", Arm: "VF : overlay", Here: "2 x", Ratio: "0.50x"},
		{Name: "sent", Printed: "12 x sent", Arm: "VF : overlay", Here: "7 x sent", Ratio: "0.58x"},
		{Name: "each", Printed: "5.60 Mpps each", Arm: "both", Here: "1 Mpps each", Ratio: "0.18x"},
		{Name: "no base", Printed: "7.77 x", Arm: "VF", Here: "-", Ratio: "-"},
		{Name: "CPU, at most", Printed: "35 % CPU", Arm: "VF", Here: "70 % CPU", Ratio: "2.00x"},
	}
	if diff := cmp.Diff(want, listPrinted(r)); r.Validate() != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", r.Validate(), diff)
	}
	r.Printed[1].Base = "none"
	if err := r.Validate(); err == nil || !strings.Contains(err.Error(), `printed[1].base "none"`) {
		t.Error(err)
	}
}
