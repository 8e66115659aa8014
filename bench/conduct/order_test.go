package conduct

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/place"
	"github.com/culvert-net/culvert/bench/preset"
)

// The management network of a lab is no path, and a note says so.
func TestWithoutManagement(t *testing.T) {
	path := func(from, to string) bench.Path {
		return bench.Path{From: bench.End{Interface: from}, To: bench.End{Interface: to}}
	}
	rest, note := withoutManagement([]bench.Path{path("mgmt0", "mgmt0"), path("eth0", "eth0"), path("net1", "mgmt0")}, "mgmt0")
	if len(rest) != 1 || rest[0].From.Interface != "eth0" || !strings.Contains(note, "--path host") {
		t.Errorf("%+v, %q", rest, note)
	}
	if rest, note := withoutManagement(rest, "mgmt0"); len(rest) != 1 || note != "" {
		t.Errorf("%+v, %q", rest, note)
	}
}

// A fault of an order is reported before an agent is started.
func TestOrderSaysWhatIsWrong(t *testing.T) {
	for want, o := range map[string]Order{
		"did you mean m4?":       {Presets: []string{"m44"}, Burst: 1},
		"take 1 to 64":           {Burst: 65},
		"a number above 0":       {Burst: 1, Seconds: -1},
		"between which ends?":    {Burst: 1, To: []string{"host"}},
		"which is an end as":     {Burst: 1, From: []string{"host"}, To: []string{"netns:a"}, Via: "netns:a"},
		"--to is host,netns=a t": {Burst: 1, From: []string{"host"}, To: []string{"netns:a", "netns:a"}},
	} {
		err := o.Check()
		if err == nil {
			_, err = (&Session{}).Plan(t.Context(), o, place.Program{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q", o, err, want)
		}
	}
}

// everywhere has paths for every preset that is not refused.
func everywhere() preset.Here {
	var paths []bench.Path
	for _, p := range []bench.Path{
		{Ends: "pod-pod", Network: "overlay", Place: "other node"}, {Ends: "pod-pod", Network: "VF", Place: "other node"},
		{Ends: "VF-VF", Network: "DPDK", Place: "other node"}, {Ends: "pod-pod", Network: "VF", Place: "same PF"}, {Ends: "node-node", Network: "host", Place: "other node"},
	} {
		p.From, p.To = bench.End{Name: "a", Interface: fmt.Sprint("from", len(paths))}, bench.End{Name: "b", Interface: "to"}
		if p.Network == "VF" {
			p.From.VF, p.To.VF = new(int), new(int)
		}
		paths = append(paths, p)
	}
	return preset.Here{
		Paths: paths, Cable: true, Lacks: func(string) string { return "" },
		Rates: func(bench.Path) (int, int, error) { return 1, 1000, nil },
	}
}

// Every preset is planned by its name, quick ones take minutes, and rough ones less.
func TestPlansTakeTheirTime(t *testing.T) {
	for _, p := range preset.All() {
		took := map[bool]time.Duration{}
		for _, rough := range []bool{false, true} {
			m := &Measurement{Limits: Limits{Rough: rough}, quick: true}
			var err error
			if m.plan, err = (Order{Presets: []string{p.Name, p.Name}, Quick: true, Limits: m.Limits}).planPresets(everywhere()); err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			m.Arms = m.plan.Arms
			if err := m.settlePlan(Order{}); err != nil {
				t.Fatal(err)
			}
			if m.Limits.Repeats != 3 || m.Seed == 0 || m.Limits.MaxTime < 10*time.Minute || m.plan.Presets() != p.Name {
				t.Errorf("%s: %+v, seed %d, of %q", p.Name, m.Limits, m.Seed, m.plan.Presets())
			}
			took[rough] = m.Takes()
		}
		if took[false] > 10*time.Minute || took[true] >= took[false] {
			t.Errorf("%s takes %s, quick, and %s, rough", p.Name, took[false], took[true])
		}
	}
}

// Rough rounds have no warm-up: the first round counts.
func TestRoughRoundsDoNotWarmUp(t *testing.T) {
	runs, unfinished := rounds(Limits{Repeats: 3, MaxTime: time.Hour, Rough: true}, good).Run(t.Context())
	if len(runs) != 6 || unfinished != "" {
		t.Fatalf("%d runs, %q", len(runs), unfinished)
	}
	for i, run := range runs {
		if run.Discard {
			t.Errorf("run %d is discarded", i)
		}
	}
}
