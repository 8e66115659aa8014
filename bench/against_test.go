package bench

import (
	"math"
	"slices"
	"testing"
)

// measured is a result with an arm of streams of these Gb/s, and one of questions with
// these delays.
func measured(gbps, p50 []float64) Result {
	vf, ask := betweenMachines("a", "b"), betweenMachines("a", "b")
	vf.Name, vf.Workload.Kind, ask.Name, ask.Workload.Kind = "VF", Stream, "ask", Request
	r := Result{Schema: Schema, Machines: []Machine{{Name: "a"}, {Name: "b"}}, Arms: []Arm{vf, ask}}
	for _, v := range gbps {
		r.Runs = append(r.Runs, Run{Arm: 0, Gbps: v})
	}
	for _, v := range p50 {
		r.Runs = append(r.Runs, Run{Arm: 1, Delays: &Delays{Count: 1000, Min: v, P50: v, P90: v, P99: v, P999: v, Max: v}})
	}
	return r
}

// inFolders returns a folder of results of which each has one run of the arms of r: its n-th.
func inFolders(r Result) (folder []Observation) {
	seen := make([]int, len(r.Arms))
	for k := range r.Runs {
		i := r.Runs[k].Arm
		n := seen[i]
		seen[i]++
		for len(folder) <= n {
			folder = append(folder, Observation{Arms: r.Arms, values: make([]map[string][]float64, len(r.Arms))})
		}
		values := map[string][]float64{}
		for _, m := range Metrics(r.Arms[i].Workload.Kind) {
			if v := m.Of(r.Arms[i], r.Runs[k]); !math.IsNaN(v) {
				values[m.Name] = []float64{v}
			}
		}
		folder[n].values[i] = values
	}
	if folder == nil {
		folder = []Observation{Observe(r)}
	}
	return folder
}

// compareFoldersOf compares the runs of two results as if each run were a result.
func compareFoldersOf(a, b Result, rules []Rule) Against {
	return CompareFolders(inFolders(a), inFolders(b), rules)
}

// asSides returns an A/B measurement with the runs of a on side A, and those of b, which has the same
// arms, on side B.
func asSides(a, b Result) Result {
	r := Result{Schema: Schema, Machines: a.Machines}
	for side, of := range []Result{a, b} {
		r.Sides = append(r.Sides, Side{Name: SideNames[side], Command: "set " + SideNames[side], At: []string{"this host"}, Machines: of.Machines})
		for _, arm := range of.Arms {
			arm.Name, arm.Side = arm.Name+" "+SideNames[side], SideNames[side]
			r.Arms = append(r.Arms, arm)
		}
		for _, run := range of.Runs {
			run.Arm += side * len(a.Arms)
			r.Runs = append(r.Runs, run)
		}
	}
	return r
}

func times6(v float64) []float64 {
	return []float64{v, v * 1.01, v * 0.99, v * 1.005, v * 0.995, v * 1.002}
}

func TestCompareVerdicts(t *testing.T) {
	was := measured(times6(9), times6(200))
	for name, c := range map[string]struct {
		is   Result
		want []Verdict // throughput, p50, p99
	}{
		"the same":     {was, []Verdict{NotWorse, NotWorse, NotWorse}},
		"worse":        {measured(times6(8), times6(220)), []Verdict{Worse, Worse, Worse}},
		"better":       {measured(times6(10), times6(180)), []Verdict{Better, Better, Better}},
		"three repeat": {measured([]float64{8, 8, 8}, []float64{1, 1, 1, 1}), []Verdict{Worse, Better, Better}},
		"one each":     {measured([]float64{8}, []float64{1}), []Verdict{Unclear, Unclear, Unclear}},
		"none":         {measured(nil, nil), []Verdict{Unclear, Unclear, Unclear}},
	} {
		got := compareFoldersOf(was, c.is, nil)
		var verdicts []Verdict
		for _, ch := range got.Changes {
			verdicts = append(verdicts, ch.Verdict())
		}
		if !slices.Equal(verdicts, c.want) {
			t.Errorf("%s: %q, want %q", name, verdicts, c.want)
		}
	}
}

func TestCompareRules(t *testing.T) {
	was := measured(times6(9), times6(200))
	gone := measured(times6(9), nil)
	gone.Arms, gone.Runs = gone.Arms[:1], gone.Runs[:6]
	other := measured(times6(9), nil)
	other.Arms[1].Workload.Kind = Packets
	for name, c := range map[string]struct {
		was, is Result
		rule    string
		want    string // "" passes
	}{
		"equal":             {was, was, "throughput<-5%", ""},
		"within":            {was, measured(times6(8.7), nil), "throughput<-5%", ""},
		"beyond":            {was, measured(times6(8), nil), "throughput<-5%", "VF: throughput -11.1 % (9.01 Gb/s, then 8.01; p=0.0022)"},
		"beyond, by chance": {was, measured([]float64{8, 8, 9.5, 9.5, 8, 8}, nil), "throughput<-5%", "VF: 6 and 6 results cannot tell: about 27 results of each would"},
		"better":            {was, measured(times6(20), times6(10)), "p50>10%", ""},
		"slower answers":    {was, measured(times6(9), times6(300)), "p50>10%", "ask: latency, median +50.0 % (200 us, then 300; p=0.0022)"},
		"too few":           {was, measured([]float64{9}, nil), "throughput<-5%", "VF: 6 and 1 results cannot tell: about 4 results of each would"},
		"no such figure":    {was, was, "pps<-5%", "no arm of both has it"},
		"no evidence":       {was, was, "cpu>5%", "no arm of both has it"},
		"an arm is gone":    {was, gone, "throughput<-5%", "arm ask is only in the first"},
		"an arm is new":     {gone, was, "throughput<-5%", ""},
		"another kind":      {was, other, "throughput<-5%", "arm ask is request in the first and packets in the second"},
		"nothing before":    {measured(make([]float64, 6), nil), was, "throughput<-5%", "VF: throughput was 0 in the first folder"},
		"stopped":           {was, measured(make([]float64, 6), nil), "throughput<-5%", "VF: throughput -100.0 % (9.01 Gb/s, then 0; p=0.0022)"},
	} {
		rule, err := ParseRule(c.rule)
		if err != nil {
			t.Fatal(err)
		}
		got := compareFoldersOf(c.was, c.is, []Rule{rule})
		why := ""
		for _, j := range slices.Concat(got.Broken, got.Unclear) {
			why = j.Why
		}
		if why != c.want || len(got.Broken)+len(got.Unclear)+len(got.Passed) != 1 {
			t.Errorf("%s: broken: %q, want %q", name, why, c.want)
		}
	}
	if got := compareFoldersOf(gone, was, nil); len(got.Added) != 1 || got.Added[0] != "ask" || got.Missing != nil {
		t.Errorf("an arm is new: %+v", got)
	}
}

// TestNeeds: the number of rounds grows with the scatter and falls with the change to be shown.
// Samples of one value each, and a need of more than a million rounds, get a text alone.
func TestNeeds(t *testing.T) {
	throughput, delay := Metrics(Stream)[0], Metrics(Request)[0]
	// By hand: 2*pi/3 * (3*(1.960+0.842))^2 is 148. Two samples of 3 values can never show a
	// difference.
	for name, c := range map[string]struct {
		change Change
		rounds int
		said   string
	}{
		"by hand":          {Change{Metric: delay, Margin: math.E - 1, Difference: Difference{Spread: 3}}, 148, "about 148 rounds"},
		"less is worse":    {Change{Metric: throughput, Margin: 1 - 1/math.E, Difference: Difference{Spread: 3}}, 148, "about 148 rounds"},
		"no scatter":       {Change{Metric: delay, Margin: 0.05, Difference: Difference{Spread: 0}}, 4, "about 4 rounds"},
		"one value each":   {Change{Metric: delay, Margin: 0.05, Difference: Differ([]float64{1}, []float64{2})}, 0, "two rounds at least"},
		"a millionth part": {Change{Metric: delay, Margin: 1e-6, Difference: Difference{Spread: 0.2}}, 0, "more than a million rounds"},
	} {
		if rounds, said := c.change.Needs(); rounds != c.rounds || said != c.said {
			t.Errorf("%s: %d, %q; want %d, %q", name, rounds, said, c.rounds, c.said)
		}
	}
}
