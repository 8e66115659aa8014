package bench

import (
	"fmt"
	"math"
	"slices"
)

// Change is the difference of one metric of one arm between two results.
type Change struct {
	Arm    string
	Metric Metric
	Was    Interval
	Is     Interval
	Difference
	// Margin is the loss that does not count as worse, as a part of the first value: the smallest
	// that a rule about the metric allows, or DefaultMargin.
	Margin float64
}

// Part returns the change of the median as a part of the earlier median.
func (c Change) Part() float64 { return c.Ratio.Value - 1 }

// Verdict is the outcome of the comparison of one figure.
type Verdict string

// The verdicts. A change that is not significant is unclear if the bounds of it alone include a loss
// of Change.Margin or more.
const (
	Better   Verdict = "better"
	Worse    Verdict = "worse"
	NotWorse Verdict = "not worse" // by Change.Margin
	Unclear  Verdict = "cannot tell"
)

// DefaultMargin is the loss, as a part of the first value, that does not count as worse if no rule
// is about the metric.
const DefaultMargin = 0.05

// Verdict returns the outcome of the comparison.
func (c Change) Verdict() Verdict {
	switch {
	case c.Significant() && (c.Effect < 0) == c.Metric.Less:
		return Better
	case c.Significant():
		return Worse
	case c.keepsWithin(c.Margin):
		return NotWorse
	}
	return Unclear
}

// keepsWithin reports whether the bounds of the change alone exclude a loss of that part or more.
// There is no correction for the other figures: a rule is kept only if all figures keep within it,
// and a figure that does not passes in at most 1 - Confidence of all cases, however many others
// there are (an intersection-union test; Berger 1982).
func (c Change) keepsWithin(part float64) bool {
	if c.Metric.Less {
		return c.Alone.High-1 < part
	}
	return c.Alone.Low-1 > -part
}

// Needs returns how many rounds each result needs to show a change of Margin, and the same as
// text. rounds is 0 if that number is unknown or more than a million.
func (c Change) Needs() (rounds int, said string) {
	part := c.Margin
	if !c.Metric.Less {
		part = -part
	}
	switch n := c.Rounds(part); {
	case n == 0 && !math.IsNaN(c.Spread):
		return 0, "more than a million rounds"
	case n == 0:
		return 0, "two rounds at least"
	default:
		return n, fmt.Sprintf("about %d rounds", n)
	}
}

// Against is a second result compared with a first.
type Against struct {
	Changes []Change
	Missing []string // descriptions of the arms that only the first has
	Added   []string // names of arms that only the second has
	Unlike  []string // see [Unlike]
	Broken  []Judged // rules, in the order in which they were given
	Unclear []Judged // rules of which the runs do not show whether they are kept
	Passed  []Rule
}

// Judged is a rule with the reason why it is broken or unclear.
type Judged struct {
	Rule
	Why string
}

// Compare compares b with a: every arm that both have, by every metric of its kind,
// and judges the rules. The figures that rules name are one family of comparisons, and all other
// figures are another: where nothing changed in a family, the chance that any of it is called a
// change is at most 1 - Confidence. A rule breaks when the change is
// beyond its bound and is significant, and when it is about an arm that the second result lacks. It is
// kept when the change's bounds are within its own, and unclear otherwise.
func Compare(a, b Result, rules []Rule) Against {
	out := Against{Unlike: Unlike(a, b)}
	out.Missing, out.Added = missingArms(a, b)
	out.Changes = listChanges(a, b, rules)
	for _, r := range rules {
		switch verdict, why := out.judgeRule(r); verdict {
		case Worse:
			out.Broken = append(out.Broken, Judged{r, why})
		case Unclear:
			out.Unclear = append(out.Unclear, Judged{r, why})
		default:
			out.Passed = append(out.Passed, r)
		}
	}
	return out
}

// missingArms describes the arms of a that b lacks or has with another kind of workload, and
// returns the names of the arms that only b has.
func missingArms(a, b Result) (missing, added []string) {
	for _, arm := range a.Arms {
		switch j := b.armNamed(arm.Name); {
		case j < 0:
			missing = append(missing, fmt.Sprintf("arm %s is only in the first", arm.Name))
		case b.Arms[j].Workload.Kind != arm.Workload.Kind:
			missing = append(missing, fmt.Sprintf("arm %s is %s in the first and %s in the second", arm.Name, arm.Workload.Kind, b.Arms[j].Workload.Kind))
		}
	}
	for _, arm := range b.Arms {
		if a.armNamed(arm.Name) < 0 {
			added = append(added, arm.Name)
		}
	}
	return missing, added
}

func (r Result) armNamed(name string) int {
	return slices.IndexFunc(r.Arms, func(a Arm) bool { return a.Name == name })
}

// listChanges compares the arms of both results, by each metric of which either has values.
func listChanges(a, b Result, rules []Rule) (all []Change) {
	var was, is [][]float64
	for i, arm := range a.Arms {
		j := b.armNamed(arm.Name)
		if j < 0 || b.Arms[j].Workload.Kind != arm.Workload.Kind {
			continue
		}
		for _, m := range Metrics(arm.Workload.Kind) {
			first, second := a.Values(i, m), b.Values(j, m)
			if len(first)+len(second) == 0 {
				continue
			}
			all = append(all, Change{Arm: arm.Name, Metric: m, Was: Estimate(first), Is: Estimate(second), Margin: margin(m, rules)})
			was, is = append(was, first), append(is, second)
		}
	}
	for _, named := range []bool{true, false} {
		var members []int
		for i, c := range all {
			if isNamed(c.Metric, rules) == named {
				members = append(members, i)
			}
		}
		family := make([]*Difference, len(members))
		for k, i := range members {
			all[i].Difference = differBy(is[i], was[i], len(members))
			family[k] = &all[i].Difference
		}
		adjustHolm(family)
	}
	return all
}

// isNamed reports whether a rule is about the metric.
func isNamed(m Metric, rules []Rule) bool {
	return slices.ContainsFunc(rules, func(r Rule) bool { return r.Metric == m.Name })
}

// margin returns the smallest change that a rule about the metric allows.
func margin(m Metric, rules []Rule) float64 {
	least := math.Inf(1)
	for _, r := range rules {
		if r.Metric == m.Name {
			least = math.Min(least, math.Abs(r.Part))
		}
	}
	if math.IsInf(least, 1) {
		return DefaultMargin
	}
	return least
}

// judgeRule says whether a rule is kept (NotWorse), broken (Worse) or unclear, and why it is not kept.
func (a Against) judgeRule(r Rule) (verdict Verdict, why string) {
	judged, unclear := false, ""
	for _, c := range a.Changes {
		if c.Metric.Name != r.Metric {
			continue
		}
		judged = true
		part := c.Part()
		if math.IsNaN(part) && c.N[0] > 0 && c.N[1] > 0 {
			return Worse, fmt.Sprintf("%s: %s was 0 in the first", c.Arm, c.Metric.Title)
		}
		said := fmt.Sprintf("%s: %s %+.1f %% (%s %s, then %s; p=%.2g)", c.Arm, c.Metric.Title, 100*part, Number(c.Was.Value), c.Metric.Unit, Number(c.Is.Value), c.Adjusted)
		if beyond := r.Below && part < r.Part || !r.Below && part > r.Part; beyond && c.Verdict() == Worse {
			return Worse, said
		}
		if unclear == "" && !c.keepsWithin(math.Abs(r.Part)) {
			c.Margin = math.Abs(r.Part)
			_, needs := c.Needs()
			unclear = fmt.Sprintf("%s: %d and %d rounds cannot tell: %s of each would", c.Arm, c.N[1], c.N[0], needs)
		}
	}
	switch {
	case !judged:
		return Worse, "no arm of both results has it"
	case len(a.Missing) > 0:
		return Worse, a.Missing[0]
	case unclear != "":
		return Unclear, unclear
	}
	return NotWorse, ""
}
