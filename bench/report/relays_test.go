package report

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/screen"
)

// makeMiddle returns a result of a path through a router, with arms of packets, of TCP, and with a
// void run.
func makeMiddle() bench.Result {
	via := bench.Relay{Machine: "n3", Name: "r", How: bench.Routes, In: "eth1", Out: "eth2"}
	path := bench.Path{
		Ends: "pod-pod", Network: "VF", Place: "other node", Via: via,
		From: bench.End{Machine: "n1", Name: "a", Interface: "net1"}, To: bench.End{Machine: "n2", Name: "b", Interface: "net1"},
	}
	r := bench.Result{
		Schema: bench.Schema, Machines: []bench.Machine{{Name: "n1"}, {Name: "n2"}, {Name: "n3"}},
		Arms: []bench.Arm{
			{Name: "VF", Path: path, Workload: bench.Workload{Kind: bench.Packets, Engine: "culvert", Seconds: 10}},
			{Name: "VF TCP", Path: path, Workload: bench.Workload{Kind: bench.Stream, Engine: "culvert", Seconds: 10}},
			{Name: "VF void", Path: path, Workload: bench.Workload{Kind: bench.Stream, Engine: "culvert", Seconds: 10}},
		},
	}
	busy := bench.Evidence{CPU: bench.CPUUse{Seconds: 10, System: 2, Idle: 18}}
	between := bench.Evidence{CPU: bench.CPUUse{Seconds: 10, SoftIRQ: 5, Idle: 5, Busiest: 0.97}, Interfaces: []bench.Counters{
		{Interface: "eth1", Role: "path", RxPackets: 12e6, RxBytes: 10e9, TxPackets: 5}, {Interface: "eth2", Role: "path", TxPackets: 10e6, TxBytes: 10e9},
	}}
	for arm, run := range []bench.Run{{PPS: 1e6, Packets: 10e6}, {Gbps: 8, Bytes: 10e9}, {Void: "nothing arrived"}} {
		run.Arm, run.Seconds, run.From, run.To, run.Via = arm, 10, busy, busy, &between
		run.Limits = bench.Limits(run, r.Arms[arm])
		r.Runs = append(r.Runs, run)
	}
	return r
}

// The report shows the relay in the middle of a path, with the traffic that it forwarded and its
// own cost.
func TestRelaysAreTold(t *testing.T) {
	r := makeMiddle()
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	text := Text(r, screen.Look{})
	for _, want := range []string{
		"ARM          IN THE MIDDLE     RECEIVED    SENT  BUSIEST        ITS CPU\n",
		"VF, packets  r on n3, routes  1.20 Mpps  1 Mpps     97 %  500 ns/packet\n",
		"VF TCP       r on n3, routes     8 Gb/s  8 Gb/s     97 %    6.25 %/Gb/s\n",
		"VF void      r on n3, routes          -       -        -              -\n",
		"- pod-pod, VF, other node: n1 a net1 through n3 r eth1-eth2 (routes) to n2 b net1",
		"VF, packets: core, n3: the busiest processor was busy 97 % of the time",
		" 900 ns/packet", // of all three machines
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in it:\n%s", want, text)
		}
	}
	var page strings.Builder
	if err := HTML(&page, r, ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<h2>In the middle</h2>", "500 ns/packet", "<span>routes, eth1 to eth2</span>"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%q is not in the page", want)
		}
	}
}
