package bench

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPairs(t *testing.T) {
	made := 0
	unlike := func(a Arm, change func(*Arm)) Arm {
		change(&a)
		return a
	}
	arm := func(network string, size int) Arm {
		a := betweenMachines("a", "b")
		made++
		a.Path.To.Interface = fmt.Sprint("eth", made)
		a.Name, a.Path.Network, a.Workload = network, network, Workload{Kind: Stream, Size: size}
		return a
	}
	same := arm("VF", 0)
	index := 1
	// Each has a copy of the VF's index, as arms that were read from a file.
	ofVF := func(network string, service netip.Addr) Arm {
		a, vf := same, index
		a.Name, a.Path.Network, a.Path.Service, a.Path.From.VF = network, network, service, &vf
		return a
	}
	clusterIP := netip.MustParseAddr("10.96.0.7")
	for name, c := range map[string]struct {
		arms []Arm
		want [][2]int // arm, base
	}{
		"VF and overlay":           {[]Arm{arm("overlay", 0), arm("VF", 0)}, [][2]int{{1, 0}}},
		"in another order":         {[]Arm{arm("VF", 0), arm("overlay", 0)}, [][2]int{{0, 1}}},
		"by size":                  {[]Arm{arm("overlay", 1), arm("VF", 1), arm("overlay", 2), arm("VF", 2), arm("VF", 3)}, [][2]int{{1, 0}, {3, 2}}},
		"two VFs against two ways": {[]Arm{arm("VF", 0), arm("VF", 0), arm("overlay", 0), arm("host", 0)}, [][2]int{{0, 2}, {1, 2}, {0, 3}, {1, 3}}},
		"VFs alone":                {[]Arm{arm("VF", 0), arm("VF", 0), arm("VF", 0)}, [][2]int{{1, 0}, {2, 0}}},
		"pods and nodes":           {[]Arm{arm("overlay", 0), unlike(arm("VF", 0), func(a *Arm) { a.Path.Ends = "node-node" })}, nil},
		"on one machine":           {[]Arm{arm("overlay", 0), unlike(arm("VF", 0), func(a *Arm) { a.Path.To.Machine = "a" })}, nil},
		"a path against itself":    {[]Arm{same, same}, nil},
		"a Service over VFs":       {[]Arm{ofVF("VF", netip.Addr{}), ofVF("service", clusterIP)}, [][2]int{{1, 0}}},
		"its VF and an overlay":    {[]Arm{arm("overlay", 0), ofVF("VF", netip.Addr{}), ofVF("service", clusterIP)}, [][2]int{{1, 0}, {2, 1}}},
		"a Service beside a VF":    {[]Arm{arm("VF", 0), arm("service", 0)}, [][2]int{{0, 1}}},
		"nothing beside it":        {[]Arm{arm("VF", 0)}, nil},
	} {
		var got [][2]int
		for _, p := range (Result{Arms: c.arms}).Pairs() {
			got = append(got, [2]int{p.Arm, p.Base})
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// TestRatiosByRound: a round in which either arm has no run that counts has no ratio.
func TestRatiosByRound(t *testing.T) {
	a, b := betweenMachines("a", "b"), betweenMachines("a", "b")
	a.Workload.Kind, b.Workload.Kind = Connect, Connect
	r := Result{Arms: []Arm{a, b}, Runs: []Run{
		{Arm: 0, PPS: 100, Discard: true}, {Arm: 1, PPS: 1, Discard: true},
		{Arm: 1, PPS: 99}, {Arm: 0, PPS: 100},
		{Arm: 1, PPS: 99, Void: "x"}, {Arm: 1, Void: "x"}, {Arm: 1, Void: "x"}, {Arm: 0, PPS: 50},
		{Arm: 0, PPS: 200, Void: "x"}, {Arm: 1, PPS: 100}, {Arm: 0, PPS: 200},
	}}
	if diff := cmp.Diff([]float64{0.99, 0.5}, r.RatiosByRound(1, 0)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestPairFigures(t *testing.T) {
	vf, overlay := betweenMachines("a", "b"), betweenMachines("a", "b")
	vf.Name, vf.Path.Network, vf.Workload.Kind, overlay.Workload.Kind = "VF", "VF", Stream, Stream
	r := Result{Arms: []Arm{overlay, vf}}
	for range 6 {
		r.Runs = append(r.Runs, Run{Arm: 0, Seconds: 10, Gbps: 4, Bytes: 5e9, From: work(4), To: work(4)}, Run{Arm: 1, Seconds: 10, Gbps: 8, Bytes: 10e9, From: work(2), To: work(2)})
	}
	p := r.Pairs()[0]
	if p.Ratio.Value != 2 || p.CPU.Ratio.Value != 0.25 || p.N != [2]int{6, 6} || p.P != 0.03125 || p.Is.Value != 8 || p.Was.Low != 4 {
		t.Errorf("%+v", p)
	}
	// The overlay lacks the last round and the VF the first: the test is that of two samples.
	void, apart := Run{Arm: 1, Void: "x"}, r
	apart.Runs = slices.Concat([]Run{void, void, void, r.Runs[0]}, r.Runs[:10], r.Runs[11:])
	if p := apart.Pairs()[0]; p.ByRound || p.N != [2]int{6, 6} || math.Abs(p.P-2.0/924) > 1e-9 || p.Ratio.Value != 2 {
		t.Errorf("other rounds: %+v", p)
	}
	r.Arms[0].Workload.Kind, r.Arms[1].Workload.Kind = Echo, Echo
	if p := r.Pairs()[0]; !math.IsNaN(p.CPU.Ratio.Value) || !math.IsNaN(p.Ratio.Value) {
		t.Errorf("without delays: %+v", p)
	}
}

// TestMTU: the smallest MTU on the way decides, of all paths of an arm. One that is not known
// leaves the arm's unknown.
func TestMTU(t *testing.T) {
	path := func(from, to int) Path { return Path{From: End{MTU: from}, To: End{MTU: to}} }
	for _, c := range []struct {
		arm  Arm
		want int
	}{
		{Arm{Path: path(9000, 9000)}, 9000},
		{Arm{Path: path(9000, 1500)}, 1500},
		{Arm{Path: path(1450, 1500)}, 1450},
		{Arm{Path: path(9000, 9000), Also: []Path{path(9000, 9000), path(4000, 9000)}}, 4000},
		{Arm{Path: path(9000, 9000), Also: []Path{path(9000, 0)}}, 0},
		{Arm{Path: path(0, 1500)}, 0},
	} {
		if got := c.arm.MTU(); got != c.want {
			t.Errorf("%+v: %d, want %d", c.arm.Paths(), got, c.want)
		}
	}
}
