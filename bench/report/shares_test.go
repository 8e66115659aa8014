package report

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/screen"
)

// makeSeveral returns a result of three senders at once, of which the last one gets half as much as
// each of the others.
func makeSeveral() bench.Result {
	r := bench.Result{Schema: bench.Schema, Machines: []bench.Machine{{Name: "n1"}, {Name: "n2"}}}
	path := func(from string) bench.Path {
		return bench.Path{Ends: "pod-pod", Network: "VF", Place: "other node", From: bench.End{Machine: "n1", Name: from, Interface: "net1"}, To: bench.End{Machine: "n2", Name: "r", Interface: "net1"}}
	}
	r.Arms = []bench.Arm{{
		Name: "VF 3 senders", Path: path("a"), Also: []bench.Path{path("b"), path("c")},
		Workload: bench.Workload{Kind: bench.Packets, Engine: "culvert", Seconds: 10, Senders: 3},
	}}
	busy := bench.Evidence{CPU: bench.CPUUse{Seconds: 10, System: 5, Idle: 15, Busiest: 0.75}}
	for range 6 {
		var each []bench.Run
		for _, pps := range []float64{1e6, 1e6, 0.5e6} {
			each = append(each, bench.Run{Seconds: 10, PPS: pps, Packets: uint64(10 * pps), Bytes: uint64(640 * pps), From: busy, To: busy})
		}
		r.Runs = append(r.Runs, bench.Sum(each))
	}
	return r
}

func TestSharesAreTold(t *testing.T) {
	r := makeSeveral()
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	text := Text(r, screen.Look{})
	for _, want := range []string{
		"  n1 a net1 to n2 r net1          1 Mpps      40 %",
		"  n1 c net1 to n2 r net1      0.500 Mpps      20 %",
		"VF, packets 3 senders, total   2.50 Mpps",
		"  least : most                     0.500",
		"- pod-pod, VF, other node: n1 b net1 to n2 r net1 (packets)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in it:\n%s", want, text)
		}
	}
	var page, lines strings.Builder
	if err := HTML(&page, r, ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<h2>At once</h2>", "n1 c net1 to n2 r net1", "0.500 Mpps", "20 %", "least : most 0.500"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	if err := CSV(&lines, r); err != nil {
		t.Fatal(err)
	}
	if first := strings.Split(lines.String(), "\n")[1]; !strings.HasSuffix(first, ",0.75,0.75,unknown,0.5") || !strings.Contains(first, ",2500000,") {
		t.Errorf("csv: %s", first)
	}
}
