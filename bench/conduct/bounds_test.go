package conduct

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/agent"
)

// Each generator is measured once, at the end that sends; a window's round trip once for
// each path.
func TestBounds(t *testing.T) {
	w := newWorld(t)
	path := w.exchange.Arms[0].Path
	windowed := bench.Workload{Kind: bench.Stream, Engine: "culvert", Seconds: 10, Window: 65536}
	m := &Measurement{Exchange: Exchange{Stations: w.stations, Arms: []bench.Arm{
		{Name: "a", Path: path, Workload: windowed},
		{Name: "b", Path: w.exchange.Arms[1].Path, Workload: windowed},
		{Name: "packets back", Path: path, Workload: bench.Workload{Kind: bench.Packets, Engine: "culvert", Seconds: 10, Size: 64, Rate: 1, Reverse: true}},
		{Name: "datagrams", Path: path, Workload: bench.Workload{Kind: bench.Datagram, Engine: "culvert", Seconds: 10, Size: 1000, Rate: 1e6}},
		{Name: "iperf3", Path: path, Workload: bench.Workload{Kind: bench.Stream, Engine: "iperf3", Seconds: 10, Streams: 1}},
		{Name: "iperf2", Path: path, Workload: bench.Workload{Kind: bench.Stream, Engine: "iperf2", Seconds: 10, Streams: 2}},
		{Name: "questions", Path: path, Workload: bench.Workload{Kind: bench.Request, Engine: "culvert", Seconds: 10}},
	}}}
	if why := WhyNoEngine(w.stations, "iperf2"); why != "" {
		t.Skip(why)
	}
	if notes := m.findBounds(t.Context(), upTo(len(m.Arms))); len(notes) > 0 {
		t.Errorf("%q", notes)
	}
	for i, a := range m.Arms {
		stream, packets := i == 0 || i == 1 || i == 4 || i == 5, i == 2 || i == 3
		if (a.GeneratorGbps > 0.01) != stream || (a.GeneratorPPS > 100) != packets { // at the rates, it would be less
			t.Errorf("%s: %g Gb/s and %g packets a second", a.Name, a.GeneratorGbps, a.GeneratorPPS)
		}
		if (a.RTT > 0) != (i < 2) || a.RTT > 1e6 {
			t.Errorf("%s: a round trip of %g us", a.Name, a.RTT)
		}
	}
	if m.Arms[0].GeneratorGbps != m.Arms[1].GeneratorGbps {
		t.Errorf("one generator was measured twice: %g and %g", m.Arms[0].GeneratorGbps, m.Arms[1].GeneratorGbps)
	}
}

// The notes name a bound that cannot be found, and the measurement goes on.
func TestBoundsThatAreNotKnown(t *testing.T) {
	w := newWorld(t)
	w.runIn(t, 0, "link", "set", "lo", "down")
	m := &Measurement{Exchange: Exchange{Stations: w.stations, Arms: []bench.Arm{
		{Name: "a", Path: w.exchange.Arms[0].Path, Workload: bench.Workload{Kind: bench.Stream, Engine: "culvert", Seconds: 10}},
		{Name: "bursts", Path: w.exchange.Arms[0].Path, Workload: bench.Workload{Kind: bench.Packets, Engine: "culvert", Seconds: 10, Burst: 64}},
	}}}
	notes := m.findBounds(t.Context(), upTo(len(m.Arms)))
	if len(notes) != 2 || !strings.Contains(notes[0], "is lo up in "+w.netns[0]) || m.Arms[0].GeneratorGbps != 0 {
		t.Errorf("%q, %+v", notes, m.Arms[0])
	}
	if !strings.Contains(notes[1], "lo takes them whole") || m.Arms[1].GeneratorPPS != 0 {
		t.Errorf("%q, %+v", notes, m.Arms[1])
	}
}

// tellingStation returns a station whose agent gives every request the same answer.
func tellingStation(t *testing.T, machine, answer string) *Station {
	t.Helper()
	here, there := net.Pipe()
	go func() {
		fmt.Fprintf(there, `{"culvertBenchAgent":%d,"version":"test"}`+"\n", agent.Protocol)
		for lines := bufio.NewScanner(there); lines.Scan(); {
			var asked struct{ ID int }
			if json.Unmarshal(lines.Bytes(), &asked) == nil {
				fmt.Fprintf(there, "{\"id\":%d,%s}\n", asked.ID, answer)
			}
		}
	}()
	t.Cleanup(func() { here.Close(); there.Close() })
	client, err := agent.NewClient(t.Context(), here)
	if err != nil {
		t.Fatal(err)
	}
	return &Station{Site: Site{Name: "s", Machine: bench.Machine{Name: machine, Interfaces: []bench.Interface{{Name: "net1", PCI: "0000:01:10.2"}}}}, Agent: client}
}

// The agent in a pod does not see the PF of its VF. The agent in the node's own network does.
func TestRateOfTheVFThatSends(t *testing.T) {
	pod, node := tellingStation(t, "w1", `"error":"no PF here"`), tellingStation(t, "w1", `"value":{"maxTxRate":500,"vlan":7}`)
	node.Name = "node"
	elsewhere := tellingStation(t, "w2", `"value":{"maxTxRate":77}`)
	one := 1
	end := bench.End{Machine: "w1", Name: "s", Interface: "net1", PF: "enp1s0", VF: &one}
	m := &Measurement{Exchange: Exchange{Stations: []*Station{pod, elsewhere, node}}}
	var is bench.Bounds
	if err := m.setAllowed(t.Context(), end, &is); err != nil || is.RateMbps != 500 || is.VLANs != 1 {
		t.Errorf("%d, %v", is.RateMbps, err)
	}
	m.Stations, is = m.Stations[:2], bench.Bounds{}
	if err := m.setAllowed(t.Context(), end, &is); err == nil || is.RateMbps != 0 || !strings.Contains(err.Error(), "net1 on w1 has a rate limit is not known: no PF here") {
		t.Errorf("%d, %v", is.RateMbps, err)
	}
	end.VF = nil
	if err := m.setAllowed(t.Context(), end, &is); err != nil {
		t.Errorf("of what is no VF: %v", err)
	}
}

// Each of several paths at once has its own bounds, by the end that sends. A rate that is swept is
// no bound.
func TestBoundsOfSeveralPaths(t *testing.T) {
	first, second := tellingStation(t, "w1", `"value":{"maxTxRate":500,"vlan":7}`), tellingStation(t, "w2", `"value":{"maxTxRate":77}`)
	one := 1
	end := func(machine string) bench.End {
		return bench.End{Machine: machine, Name: "s", Interface: "net1", PF: "enp1s0", VF: &one}
	}
	ask := bench.Workload{Kind: bench.Request}
	back := ask
	back.Reverse = true
	swept := ask
	swept.RateLimit = 100
	paths := []bench.Path{{From: end("w1"), To: end("w2")}, {From: end("w2"), To: end("w1")}, {From: end("w1"), To: end("w1")}}
	m := &Measurement{Exchange: Exchange{Stations: []*Station{first, second}, Arms: []bench.Arm{
		{Path: paths[0], Also: paths[1:], Workload: ask}, {Path: paths[0], Also: paths[1:], Workload: back}, {Path: paths[0], Workload: swept},
	}}}
	if notes := m.findBounds(t.Context(), upTo(len(m.Arms))); len(notes) > 0 {
		t.Errorf("%q", notes)
	}
	var got [][]int
	for _, a := range m.Arms {
		var rates []int
		for _, b := range a.EachBounds() {
			rates = append(rates, b.RateMbps)
		}
		got = append(got, rates)
	}
	if diff := cmp.Diff([][]int{{500, 77, 500}, {77, 500, 500}, {0}}, got); diff != "" {
		t.Error(diff)
	}
}

// A measurement finds its bounds before its runs, and a run that reaches a bound has it as its
// limit.
func TestGeneratorLimited(t *testing.T) {
	w := newWorld(t)
	arm := w.exchange.Arms[0]
	arm.Workload.Engine, arm.Workload.Seconds = "culvert", 1
	m := &Measurement{Exchange: Exchange{Stations: w.stations, Arms: []bench.Arm{arm}}, Limits: Limits{Repeats: 1, MaxTime: time.Minute}}
	if r := m.Run(t.Context()); len(r.Runs) < 2 || !(r.Arms[0].GeneratorGbps > 0) {
		t.Errorf("%d runs; %s makes %g Gb/s", len(r.Runs), arm.Workload.Engine, r.Arms[0].GeneratorGbps)
	}
	w.exchange.Arms[0].GeneratorGbps = 1e-6
	w.exchange.Arms[0].Workload.Engine = "culvert"
	run := w.goodRun(t, 0)
	spent := run.From.EngineSeconds >= 0.9*run.From.CPU.Seconds // where processors are scarce it is not
	if (run.Limits[0].What == "generator") != spent {
		t.Errorf("%+v; the engine had %g s of %g s", run.Limits, run.From.EngineSeconds, run.From.CPU.Seconds)
	}
}
