package segment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// next is the next step that each warning shows.
const next = "look at the cables and the switches; give each segment a pool of its own, or name it (segment of the PF), which ends this warning (docs/operations.md, Segments)"

// Problems returns a warning for each pool with VFs of PFs that the Table judges to be apart. It
// ignores PFs for which takesPart does not hold.
func (t *Table) Problems(spec desired.Spec, pfs []vf.PF) (out []api.Problem) {
	if !t.anyApart() {
		return nil
	}
	for _, pool := range spec.Pools {
		name := pool.FullName()
		if spec.ForecastMixedSegments(name, pfs) != "" {
			continue // status shows that problem
		}
		members := slices.DeleteFunc(spec.PFsOf(name, pfs), func(pf vf.PF) bool { return !takesPart(spec, pf) })
		if pairs := t.pairsApart(members); len(pairs) > 0 {
			out = append(out, api.Problem{
				Object: "pool " + name,
				Reason: "it has VFs of PFs that do not hear each other: " + strings.Join(pairs, ", ") + ": pods on one probably do not reach pods on the other",
				Next:   next,
			})
		}
	}
	return out
}

// mostPairs bounds the pairs of PFs that a problem names.
const mostPairs = 4

// pairsApart describes the pairs of PFs that are apart, at most mostPairs of them, and counts the
// rest.
func (t *Table) pairsApart(pfs []vf.PF) (out []string) {
	more := 0
	for i, a := range pfs {
		for _, b := range pfs[i+1:] {
			switch {
			case !t.Apart(a.ID, b.ID):
			case len(out) < mostPairs:
				out = append(out, a.Label()+" and "+b.Label())
			default:
				more++
			}
		}
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("and %d more pairs", more))
	}
	return out
}

// takesPart reports whether culvertd sends and listens on a PF: the Spec wants VFs on the PF and does
// not name its segment, and no bridge of the host takes the frames that the PF receives. The caller
// checks the carrier.
func takesPart(spec desired.Spec, pf vf.PF) bool {
	want, managed := spec.ForPF(pf)
	return managed && want.VFs > 0 && want.Segment == "" && !pf.Master.TakesFrames()
}
