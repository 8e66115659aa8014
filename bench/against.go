package bench

import (
	"fmt"
	"math"
	"slices"
)

// Change is how one metric of one arm differs between two results.
type Change struct {
	Arm    string
	Metric Metric
	Was    Interval
	Is     Interval
	Difference
}

// Part is the change of the median as a part of what it was.
func (c Change) Part() float64 { return c.Ratio.Value - 1 }

// Verdict is "better", "worse", "no difference" where none was found, and "too few
// runs" where none could be.
func (c Change) Verdict() string {
	switch {
	case !c.CanTell():
		return "too few runs"
	case !c.Significant():
		return "no difference"
	case (c.Effect < 0) == c.Metric.Less:
		return "better"
	}
	return "worse"
}

// Against is a second result compared with a first.
type Against struct {
	Changes []Change
	Missing []string // arms of the first that the second does not have, in words
	Added   []string // names of arms that only the second has
	Unlike  []string // see [Unlike]
	Broken  []Broken // rules, in the order in which they were given
	Passed  []Rule
}

// Broken is a rule with why it is not kept.
type Broken struct {
	Rule
	Why string
}

// Compare compares b with a: every arm that both have, by every metric of its kind,
// and judges the rules. A rule breaks when the change is beyond its bound and
// is significant; and when it cannot be judged: nothing to compare, or fewer runs than
// could show a difference. Not having looked is no pass.
func Compare(a, b Result, rules []Rule) Against {
	out := Against{Unlike: Unlike(a, b)}
	for i, arm := range a.Arms {
		j := slices.IndexFunc(b.Arms, func(x Arm) bool { return x.Name == arm.Name })
		if j < 0 {
			out.Missing = append(out.Missing, fmt.Sprintf("arm %s is only in the first", arm.Name))
			continue
		}
		if b.Arms[j].Workload.Kind != arm.Workload.Kind {
			out.Missing = append(out.Missing, fmt.Sprintf("arm %s is %s in the first and %s in the second", arm.Name, arm.Workload.Kind, b.Arms[j].Workload.Kind))
			continue
		}
		for _, m := range Metrics(arm.Workload.Kind) {
			was, is := a.Values(i, m), b.Values(j, m)
			if len(was)+len(is) > 0 {
				out.Changes = append(out.Changes, Change{arm.Name, m, Estimate(was), Estimate(is), Differ(is, was)})
			}
		}
	}
	for _, arm := range b.Arms {
		if !slices.ContainsFunc(a.Arms, func(x Arm) bool { return x.Name == arm.Name }) {
			out.Added = append(out.Added, arm.Name)
		}
	}
	for _, r := range rules {
		if why := out.breaks(r); why != "" {
			out.Broken = append(out.Broken, Broken{r, why})
		} else {
			out.Passed = append(out.Passed, r)
		}
	}
	return out
}

// breaks says why a rule is not kept, and is empty when it is.
func (a Against) breaks(r Rule) string {
	judged := false
	for _, c := range a.Changes {
		if c.Metric.Name != r.Metric {
			continue
		}
		judged = true
		if !c.CanTell() {
			return fmt.Sprintf("%s: %d and %d runs cannot show a difference; 4 and 4 can", c.Arm, c.N[1], c.N[0])
		}
		part := c.Part()
		if math.IsNaN(part) {
			return fmt.Sprintf("%s: %s was 0 in the first", c.Arm, c.Metric.Title)
		}
		if beyond := r.Below && part < r.Part || !r.Below && part > r.Part; beyond && c.Significant() {
			return fmt.Sprintf("%s: %s %+.1f %% (%s %s, then %s; p=%.2g)", c.Arm, c.Metric.Title, 100*part, Number(c.Was.Value), c.Metric.Unit, Number(c.Is.Value), c.P)
		}
	}
	switch {
	case !judged:
		return "no arm of both results has it"
	case len(a.Missing) > 0:
		return a.Missing[0]
	}
	return ""
}
