package gather

import (
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/node/claims"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// readClaims returns the files of other network managers that contradict the wanted
// Spec. culvertd only reports them: it leaves the files alone and applies its own Spec.
func (g *Gatherer) readClaims(pfs []vf.PF) []api.Problem {
	rules, err := g.Claims.Rules()
	out := claimProblems(g.Node.Spec(), pfs, rules.On(pfs))
	if err != nil {
		out = append(out, api.Problem{Object: "other network managers", Reason: excerpt.Error(err),
			Next: "what the other files claim is shown; culvert doctor says more"})
	}
	return out
}

func claimProblems(spec desired.Spec, pfs []vf.PF, all []claims.Claim) []api.Problem {
	var out []api.Problem
	for _, pf := range pfs {
		want, wanted := spec.ForPF(pf)
		if !wanted {
			continue // Culvert leaves it to the other manager
		}
		for _, c := range all {
			if c.PF == pf.Label() && c.Conflicts(want.MTU) {
				// Not "PF name" alone: package status leaves out the problems that it derives about
				// that object.
				out = append(out, api.Problem{Object: "PF " + pf.Label() + " and " + c.Manager, Reason: c.Describe() + ", " + c.Where() + ": " + c.Consequence(),
					Next: strings.Join(c.HandOver, "; ")})
			}
		}
	}
	return out
}
