package bench

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Change is the difference of one metric of one arm between two sides, folders or results.
type Change struct {
	Arm    string
	Metric Metric
	Was    Interval
	Is     Interval
	Difference
	// Margin is the loss that does not count as worse, as a part of the first value: the smallest
	// that a rule about the metric allows, or DefaultMargin.
	Margin float64
	// Unit names the values that are compared: "rounds" or "results".
	Unit string
	// Lost reports whether the first has runs that count, and the second none.
	Lost bool
	// Unjudged reports whether the ratio is only an estimate, without p and bounds.
	Unjudged bool
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
	Unjudged Verdict = "not judged"
)

// DefaultMargin is the loss, as a part of the first value, that does not count as worse if no rule
// is about the metric.
const DefaultMargin = 0.05

// Verdict returns the outcome of the comparison.
func (c Change) Verdict() Verdict {
	switch {
	case c.Unjudged:
		return Unjudged
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

// Needs returns how many values, such as rounds, would show a change of Margin, and the same as
// text. It is 0 if that number is unknown or more than a million.
func (c Change) Needs() (values int, said string) {
	part, unit := c.Margin, cmp.Or(c.Unit, "rounds")
	if !c.Metric.Less {
		part = -part
	}
	switch n := c.Rounds(part); {
	case n == 0 && !math.IsNaN(c.Spread):
		return 0, "more than a million " + unit
	case n == 0:
		return 0, "two " + unit + " at least"
	default:
		return n, fmt.Sprintf("about %d %s", n, unit)
	}
}

// Design says which two things are compared, which decides the test.
type Design string

// The designs.
const (
	// BySides compares the sides of an A/B measurement by round.
	BySides Design = "sides"
	// ByFolders compares two folders of results. Each result is one value: the median of an arm's runs.
	ByFolders Design = "folders"
	// ByResults compares two results. It judges nothing: results differ as days and machines do, and
	// the scatter within a result does not show by how much.
	ByResults Design = "results"
)

// Names returns the names of the two that are compared.
func (d Design) Names() (first, second string) {
	switch d {
	case BySides:
		return "A", "B"
	case ByFolders:
		return "the first folder", "the second folder"
	case ByResults:
	}
	return "the first", "the second"
}

// nameUnit names the values of the design's tests.
func (d Design) nameUnit() string {
	if d == ByFolders {
		return "results"
	}
	return "rounds"
}

// Against is a comparison of a second setting with a first.
type Against struct {
	Design  Design
	Changes []Change
	Missing []string // descriptions of the arms that only the first has
	Added   []string // names of arms that only the second has
	Unlike  []string // see [Unlike] and [Result.UnlikeSides]
	Broken  []Judged // rules, in the order in which they were given
	Unclear []Judged // rules of which the runs do not show whether they are kept
	Passed  []Rule
}

// Judged is a rule with the reason why it is broken or unclear.
type Judged struct {
	Rule
	Why string
}

// CompareSides compares side B of an A/B measurement with side A, and judges the rules. Each run of a
// side is paired with the other side's of its round.
//
// The figures that rules name are one family of comparisons, and all other figures are another;
// without rules the main figures of the arms are the first. Where nothing changed in a family, the
// chance that any of it is called a change is at most 1 - Confidence. A rule breaks when the change
// is beyond its bound and is significant, and when it is about an arm that the second lacks. It is
// kept when the change's bounds are within its own, and unclear otherwise.
func CompareSides(r Result, rules []Rule) Against {
	a, b := r.sideResult(0), r.sideResult(1)
	out := Against{Design: BySides, Unlike: r.UnlikeSides()}
	out.setChanges(figuresByRound(a, b), rules, differPaired)
	out.judgeRules(rules)
	return out
}

// CompareResults estimates the changes of a second result against a first. It leaves every rule
// unclear.
func CompareResults(a, b Result, rules []Rule) Against {
	out := Against{Design: ByResults, Unlike: Unlike(a, b)}
	out.Missing, out.Added = missingArms(a.Arms, b.Arms)
	out.setChanges(figuresOf([]Observation{observeRuns(a)}, []Observation{observeRuns(b)}), rules, estimateOnly)
	for i := range out.Changes {
		out.Changes[i].Unjudged = true
	}
	for _, r := range rules {
		out.Unclear = append(out.Unclear, Judged{r, "two results are not judged, since results differ as days and machines do: " +
			"compare both in one run (culvert bench run --ab), or two folders with several results each"})
	}
	return out
}

// CompareFolders compares two groups of results, with one value of each result: the median of an
// arm's runs. It judges the rules as [CompareSides] does.
func CompareFolders(a, b []Observation, rules []Rule) Against {
	out := Against{Design: ByFolders}
	out.Missing, out.Added = missingArms(armsOfAll(a), armsOfAll(b))
	out.setChanges(figuresOf(a, b), rules, differBy)
	out.judgeRules(rules)
	return out
}

// missingArms describes the arms of a that b lacks or has with another kind of workload, and
// returns the names of the arms that only b has.
func missingArms(a, b []Arm) (missing, added []string) {
	for _, arm := range a {
		switch j := armNamed(b, arm.Name); {
		case j < 0:
			missing = append(missing, fmt.Sprintf("arm %s is only in the first", arm.Name))
		case b[j].Workload.Kind != arm.Workload.Kind:
			missing = append(missing, fmt.Sprintf("arm %s is %s in the first and %s in the second", arm.Name, arm.Workload.Kind, b[j].Workload.Kind))
		}
	}
	for _, arm := range b {
		if armNamed(a, arm.Name) < 0 {
			added = append(added, arm.Name)
		}
	}
	return missing, added
}

func armNamed(arms []Arm, name string) int {
	return slices.IndexFunc(arms, func(a Arm) bool { return a.Name == name })
}

// setChanges compares the figures by a test, as two families.
func (a *Against) setChanges(figures []figure, rules []Rule, differ func(is, was []float64, family int) Difference) {
	for _, f := range figures {
		a.Changes = append(a.Changes, Change{Arm: f.arm.Name, Metric: f.metric, Was: Estimate(f.all[0]), Is: Estimate(f.all[1]), Margin: margin(f.metric, rules),
			Unit: a.Design.nameUnit(), Lost: len(f.all[0]) > 0 && len(f.all[1]) == 0})
	}
	for _, judged := range []bool{true, false} {
		var members []int
		for i, f := range figures {
			if isJudged(f.metric, f.arm.Main(), rules) == judged {
				members = append(members, i)
			}
		}
		family := make([]*Difference, len(members))
		for k, i := range members {
			a.Changes[i].Difference = differ(figures[i].is, figures[i].was, len(members))
			family[k] = &a.Changes[i].Difference
		}
		adjustHolm(family)
	}
}

// estimateOnly estimates the ratio of two samples, and has no p.
func estimateOnly(is, was []float64, family int) Difference {
	d := newDifference(is, was, family)
	if len(is) > 0 && len(was) > 0 {
		d.Ratio.Value = middleOf(ratiosOf(is, was))
	}
	return d
}

// isJudged reports whether a metric is in the first family: a rule is about it, or without rules it is
// the main one of its arm.
func isJudged(m, main Metric, rules []Rule) bool {
	if len(rules) == 0 {
		return m.Name == main.Name
	}
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

// judgeRules sorts the rules into broken, unclear and kept ones.
func (a *Against) judgeRules(rules []Rule) {
	for _, r := range rules {
		switch verdict, why := a.judgeRule(r); verdict {
		case Worse:
			a.Broken = append(a.Broken, Judged{r, why})
		case Unclear:
			a.Unclear = append(a.Unclear, Judged{r, why})
		default:
			a.Passed = append(a.Passed, r)
		}
	}
}

// judgeRule says whether a rule is kept (NotWorse), broken (Worse) or unclear, and why it is not kept.
func (a *Against) judgeRule(r Rule) (verdict Verdict, why string) {
	judged, unclear := false, ""
	first, second := a.Design.Names()
	for _, c := range a.Changes {
		if c.Metric.Name != r.Metric {
			continue
		}
		judged = true
		part := c.Part()
		switch {
		case c.Lost:
			return Worse, fmt.Sprintf("%s: no run of %s counts", c.Arm, second)
		case math.IsNaN(part) && c.N[0] > 0 && c.N[1] > 0:
			return Worse, fmt.Sprintf("%s: %s was 0 in %s", c.Arm, c.Metric.Title, first)
		}
		if beyond := r.Below && part < r.Part || !r.Below && part > r.Part; beyond && c.Verdict() == Worse {
			return Worse, fmt.Sprintf("%s: %s %+.1f %% (%s %s, then %s; p=%.2g)", c.Arm, c.Metric.Title, 100*part, Number(c.Was.Value), c.Metric.Unit, Number(c.Is.Value), c.Adjusted)
		}
		if unclear == "" && !c.keepsWithin(math.Abs(r.Part)) {
			c.Margin = math.Abs(r.Part)
			unclear = c.explainUnclear()
		}
	}
	switch {
	case !judged:
		return Worse, "no arm of both has it"
	case len(a.Missing) > 0:
		return Worse, a.Missing[0]
	case unclear != "":
		return Unclear, unclear
	}
	return NotWorse, ""
}

// explainUnclear says how many values there are, and how many would be enough.
func (c Change) explainUnclear() string {
	_, needs := c.Needs()
	if c.Unit == ByFolders.nameUnit() {
		return fmt.Sprintf("%s: %d and %d results cannot tell: %s of each would", c.Arm, c.N[1], c.N[0], needs)
	}
	return fmt.Sprintf("%s: %d rounds cannot tell: %s would", c.Arm, min(c.N[1], c.N[0]), needs)
}
