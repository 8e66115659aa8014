package bench

import (
	"fmt"
	"slices"
	"strings"
)

// mechanismsOf returns the mechanisms by which the ends of an arm sent and counted in its counted
// runs. Each is empty if no run has it, and has several names if runs differ.
func (r Result) mechanismsOf(arm int) (sends, counts string) {
	var names [2][]string
	for _, run := range r.Counted(arm) {
		for _, one := range run.Each() {
			for side, m := range []Mechanism{one.From.Mechanism, one.To.Mechanism} {
				if m.Name != "" && !slices.Contains(names[side], m.Name) {
					names[side] = append(names[side], m.Name)
				}
			}
		}
	}
	for side := range names {
		slices.Sort(names[side])
	}
	return strings.Join(names[0], " or "), strings.Join(names[1], " or ")
}

// differInMechanism describes how the mechanisms of two arms differ, or returns "" if they do not
// or are not known. Different mechanisms alone make different figures.
func (r Result) differInMechanism(a, b int) string {
	aSends, aCounts := r.mechanismsOf(a)
	bSends, bCounts := r.mechanismsOf(b)
	for _, side := range [][2]string{{aSends, bSends}, {aCounts, bCounts}} {
		if side[0] != side[1] && side[0] != "" && side[1] != "" {
			return fmt.Sprintf("%s uses %s and %s %s", r.Arms[a].Name, side[0], r.Arms[b].Name, side[1])
		}
	}
	return ""
}

// mechanismRemarks names the arms that are not compared because their mechanisms differ, and the
// ends that did not use the mechanism that their engine prefers.
func (r Result) mechanismRemarks() (out []string) {
	for i, base := range r.Arms {
		for j := i + 1; j < len(r.Arms); j++ {
			if why := r.differInMechanism(i, j); why != "" && len(r.Sides) == 0 && base.isAlike(r.Arms[j]) {
				out = append(out, why+": they are not compared, since a part of the difference is the mechanism's.")
			}
		}
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Void != "" || run.Arm >= len(r.Arms) {
			continue
		}
		for _, e := range r.Arms[run.Arm].listEnds(*run) {
			m := e.seen.Mechanism
			if m.Instead == "" {
				continue
			}
			said := fmt.Sprintf("%s on %s uses %s, which carries less than the mechanism that the engine prefers: %s.", e.end.Name, e.end.Machine, m.Name, m.Instead)
			if !slices.Contains(out, said) {
				out = append(out, said)
			}
		}
	}
	return out
}

// unlikeMechanisms describes how the mechanisms of an arm differ in a second result.
func unlikeMechanisms(a, b Result, i, j int) (out []string) {
	aSends, aCounts := a.mechanismsOf(i)
	bSends, bCounts := b.mechanismsOf(j)
	for _, side := range []struct{ name, was, is string }{{"sends by", aSends, bSends}, {"counts by", aCounts, bCounts}} {
		if side.was != side.is && side.was != "" && side.is != "" {
			out = append(out, describeChange("arm "+a.Arms[i].Name+": "+side.name, side.was, side.is))
		}
	}
	return out
}
