package bench

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPairs(t *testing.T) {
	arm := func(network string, size int) Arm {
		a := between("a", "b")
		a.Name, a.Path.Network, a.Workload = network, network, Workload{Kind: Stream, Size: size}
		return a
	}
	for name, c := range map[string]struct {
		arms []Arm
		want [][2]int // arm, base
	}{
		"VF and overlay":           {[]Arm{arm("overlay", 0), arm("VF", 0)}, [][2]int{{1, 0}}},
		"in another order":         {[]Arm{arm("VF", 0), arm("overlay", 0)}, [][2]int{{0, 1}}},
		"by size":                  {[]Arm{arm("overlay", 1), arm("VF", 1), arm("overlay", 2), arm("VF", 2), arm("VF", 3)}, [][2]int{{1, 0}, {3, 2}}},
		"two VFs against two ways": {[]Arm{arm("VF", 0), arm("VF", 0), arm("overlay", 0), arm("host", 0)}, [][2]int{{0, 2}, {1, 2}, {0, 3}, {1, 3}}},
		"VFs alone":                {[]Arm{arm("VF", 0), arm("VF", 0), arm("VF", 0)}, [][2]int{{1, 0}, {2, 0}}},
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

func TestPairFigures(t *testing.T) {
	vf, overlay := between("a", "b"), between("a", "b")
	vf.Name, vf.Path.Network, vf.Workload.Kind, overlay.Workload.Kind = "VF", "VF", Stream, Stream
	r := Result{Arms: []Arm{overlay, vf}}
	for range 6 {
		r.Runs = append(r.Runs, Run{Arm: 0, Seconds: 10, Gbps: 4, Bytes: 5e9, From: work(4), To: work(4)}, Run{Arm: 1, Seconds: 10, Gbps: 8, Bytes: 10e9, From: work(2), To: work(2)})
	}
	p := r.Pairs()[0]
	if p.Ratio.Value != 2 || p.CPU.Ratio.Value != 0.25 || p.N != [2]int{6, 6} || p.P > 0.003 || p.Is.Value != 8 || p.Was.Low != 4 {
		t.Errorf("%+v", p)
	}
	r.Arms[0].Workload.Kind, r.Arms[1].Workload.Kind = Echo, Echo
	if p := r.Pairs()[0]; !math.IsNaN(p.CPU.Ratio.Value) || !math.IsNaN(p.Ratio.Value) {
		t.Errorf("without delays: %+v", p)
	}
}
