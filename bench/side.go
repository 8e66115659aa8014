package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Side is one of the two settings that an A/B measurement compares, as it was when it was set up
// first.
type Side struct {
	Name    string   `json:"name"`           // "A" or "B"
	Command string   `json:"command"`        // sh runs it before the side's runs of each round
	At      []string `json:"at"`             // the places that ran it
	Says    string   `json:"says,omitempty"` // the last line that it printed, such as a version
	// Machines are the fingerprints of the machines, as in a result.
	Machines []Machine `json:"machines"`
	// Routes are the routes from each place with an agent to the ends: "netns a to 10.0.0.2".
	Routes []Setting `json:"routes,omitempty"`
}

// SideNames are the names of the sides of an A/B measurement, in the order of [Result.Sides].
var SideNames = [2]string{"A", "B"}

// checkSides returns an error unless the result has no sides, or two with as many arms of the same
// kinds.
func (r Result) checkSides() error {
	if len(r.Sides) == 0 {
		if i := slices.IndexFunc(r.Arms, func(a Arm) bool { return a.Side != "" }); i >= 0 {
			return fmt.Errorf("arms[%d].side %q: there are no sides", i, r.Arms[i].Side)
		}
		return nil
	}
	if len(r.Sides) != len(SideNames) || r.Sides[0].Name != SideNames[0] || r.Sides[1].Name != SideNames[1] {
		return fmt.Errorf("sides: want two, %s and %s", SideNames[0], SideNames[1])
	}
	a, b := r.armsOfSide(0), r.armsOfSide(1)
	if len(a) != len(b) || len(a)+len(b) != len(r.Arms) {
		return errors.New("arms: want as many of side A as of side B, and no others")
	}
	for k := range a {
		if x, y := r.Arms[a[k]].Workload.Kind, r.Arms[b[k]].Workload.Kind; x != y {
			return fmt.Errorf("arms[%d] (%s) is %s, and arms[%d] (%s), of the other side, is %s", a[k], r.Arms[a[k]].Name, x, b[k], r.Arms[b[k]].Name, y)
		}
	}
	return nil
}

// armsOfSide returns the indices of a side's arms. The k-th of one side is compared with the k-th of
// the other.
func (r Result) armsOfSide(side int) (arms []int) {
	for i, a := range r.Arms {
		if a.Side == SideNames[side] {
			arms = append(arms, i)
		}
	}
	return arms
}

// sideResult returns the arms, runs and machines of one side as a result. Arms of both sides that are
// compared have the same name in it.
func (r Result) sideResult(side int) Result {
	out := Result{Schema: r.Schema, Machines: r.Sides[side].Machines}
	place := map[int]int{}
	both := [2][]int{r.armsOfSide(0), r.armsOfSide(1)}
	for k, i := range both[side] {
		arm := r.Arms[i]
		arm.Name = r.nameOfBoth(both[0][k], both[1][k])
		place[i] = len(out.Arms)
		out.Arms = append(out.Arms, arm)
	}
	for i := range r.Runs {
		if at, own := place[r.Runs[i].Arm]; own {
			run := r.Runs[i]
			run.Arm = at
			out.Runs = append(out.Runs, run)
		}
	}
	return out
}

// nameOfBoth returns the name of two arms without their sides.
func (r Result) nameOfBoth(a, b int) string {
	x, y := strings.TrimSuffix(r.Arms[a].Name, " "+SideNames[0]), strings.TrimSuffix(r.Arms[b].Name, " "+SideNames[1])
	if x != y {
		x += " / " + y
	}
	return x
}

// UnlikeSides describes how side B differs from side A by the agents' descriptions: machines,
// interfaces, paths, routes, and the last line that each command printed.
func (r Result) UnlikeSides() []string {
	out := Unlike(r.sideResult(0), r.sideResult(1))
	out = append(out, traits(r.Sides[0].Routes).listUnlike(r.Sides[1].Routes, "route of ")...)
	if a, b := r.Sides[0].Says, r.Sides[1].Says; a != b {
		out = append(out, describeChange("the command printed", a, b))
	}
	return out
}

// ChangedSince describes how a side differs from what it was when it was set up first.
func (s Side) ChangedSince(machines []Machine, routes []Setting) []string {
	out := Unlike(Result{Machines: s.Machines}, Result{Machines: machines})
	return append(out, traits(s.Routes).listUnlike(routes, "route of ")...)
}

// sideRemarks describes the sides of an A/B measurement and their differences.
func (r Result) sideRemarks() (out []string) {
	for _, s := range r.Sides {
		out = append(out, fmt.Sprintf("Side %s, set up on %s: %s", s.Name, strings.Join(s.At, ", "), s.Command))
	}
	if len(r.Sides) == 0 {
		return nil
	}
	unlike := r.UnlikeSides()
	if len(unlike) == 0 {
		out = append(out, "No agent sees a difference between side A and side B. Have each command print one line that shows it, such as a version or a route.")
	}
	for _, u := range unlike {
		out = append(out, "A against B: "+u)
	}
	return out
}

// FamilySize returns how many figures are compared as one family: of the arms of one side, those that
// rules name, or without rules one of each arm.
func FamilySize(arms []Arm, rules []Rule) (figures int) {
	for _, a := range arms {
		for _, m := range Metrics(a.Workload.Kind) {
			if isJudged(m, a.Main(), rules) {
				figures++
			}
		}
	}
	return figures
}
