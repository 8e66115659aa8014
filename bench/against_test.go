package bench

import (
	"strings"
	"testing"
)

// measured is a result with an arm of streams of these Gb/s, and one of questions with
// these delays.
func measured(gbps, p50 []float64) Result {
	vf, ask := between("a", "b"), between("a", "b")
	vf.Name, vf.Workload.Kind, ask.Name, ask.Workload.Kind = "VF", Stream, "ask", Request
	r := Result{Schema: Schema, Machines: []Machine{{Name: "a"}, {Name: "b"}}, Arms: []Arm{vf, ask}}
	for _, v := range gbps {
		r.Runs = append(r.Runs, Run{Arm: 0, Gbps: v})
	}
	for _, v := range p50 {
		r.Runs = append(r.Runs, Run{Arm: 1, Delays: &Delays{Min: v, P50: v, P90: v, P99: v, P999: v, Max: v}})
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
		want []string // throughput, p50, p99
	}{
		"the same":     {was, []string{"no difference", "no difference", "no difference"}},
		"worse":        {measured(times6(8), times6(220)), []string{"worse", "worse", "worse"}},
		"better":       {measured(times6(10), times6(180)), []string{"better", "better", "better"}},
		"three repeat": {measured([]float64{8, 8, 8}, []float64{1, 1, 1, 1}), []string{"worse", "better", "better"}},
		"one each":     {measured([]float64{8}, []float64{1}), []string{"too few runs", "too few runs", "too few runs"}},
		"none":         {measured(nil, nil), []string{"too few runs", "too few runs", "too few runs"}},
	} {
		got := Compare(was, c.is, nil)
		var verdicts []string
		for _, ch := range got.Changes {
			verdicts = append(verdicts, ch.Verdict())
		}
		if strings.Join(verdicts, "; ") != strings.Join(c.want, "; ") {
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
		"beyond, by chance": {was, measured([]float64{8, 8, 9.5, 9.5, 8, 8}, nil), "throughput<-5%", ""},
		"better":            {was, measured(times6(20), times6(10)), "p50>10%", ""},
		"slower answers":    {was, measured(times6(9), times6(300)), "p50>10%", "ask: latency, median +50.0 % (200 us, then 300; p=0.0022)"},
		"too few":           {was, measured([]float64{9}, nil), "throughput<-5%", "VF: 6 and 1 runs cannot show a difference; 4 and 4 can"},
		"no such figure":    {was, was, "pps<-5%", "no arm of both results has it"},
		"no evidence":       {was, was, "cpu>5%", "no arm of both results has it"},
		"an arm is gone":    {was, gone, "throughput<-5%", "arm ask is only in the first"},
		"an arm is new":     {gone, was, "throughput<-5%", ""},
		"another kind":      {was, other, "throughput<-5%", "arm ask is request in the first and packets in the second"},
		"nothing before":    {measured(make([]float64, 6), nil), was, "throughput<-5%", "VF: throughput was 0 in the first"},
		"stopped":           {was, measured(make([]float64, 6), nil), "throughput<-5%", "VF: throughput -100.0 % (9.01 Gb/s, then 0; p=0.0022)"},
	} {
		rule, err := ParseRule(c.rule)
		if err != nil {
			t.Fatal(err)
		}
		got := Compare(c.was, c.is, []Rule{rule})
		why := ""
		if len(got.Broken) > 0 {
			why = got.Broken[0].Why
		}
		if why != c.want || len(got.Broken)+len(got.Passed) != 1 {
			t.Errorf("%s: broken: %q, want %q", name, why, c.want)
		}
	}
	if got := Compare(gone, was, nil); len(got.Added) != 1 || got.Added[0] != "ask" || got.Missing != nil {
		t.Errorf("an arm is new: %+v", got)
	}
}
