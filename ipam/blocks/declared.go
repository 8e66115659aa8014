package blocks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/ipam"
)

// Declared is what the configuration of a network says that may be given out of its pool.
type Declared struct {
	Ranges []ipam.Run
	// AnyAddress is set where pods choose their addresses themselves (type static).
	AnyAddress bool
}

// Confine leaves out of demands what nodes request and the network does not declare, and
// describes it: a request is a node's word, and the network's author decides. An address that
// a pod holds outside of the ranges, as after a change of the network, is described and stays
// a demand: the controller must know of every address that is held (I4).
func (d Declared) Confine(demands []Demand) (kept []Demand, outside []string) {
	for _, demand := range demands {
		var requests, holds []string
		demand.Ranges = slices.DeleteFunc(slices.Clone(demand.Ranges), func(r ipam.Run) bool {
			if d.has(r) {
				return false
			}
			requests = append(requests, r.String())
			return true
		})
		demand.Claims = slices.DeleteFunc(slices.Clone(demand.Claims), func(c Claim) bool {
			switch {
			case d.AnyAddress || d.has(ipam.Run{First: c.Addr, Last: c.Addr}):
				return false
			case c.Held:
				holds = append(holds, c.Addr.String())
				return false
			}
			requests = append(requests, c.Addr.String())
			return true
		})
		kept = append(kept, demand)
		if len(requests) > 0 {
			outside = append(outside, fmt.Sprintf("node %s requests %s, which is refused: the network has %s", demand.Node, listRuns(requests), d))
		}
		if len(holds) > 0 {
			outside = append(outside, fmt.Sprintf("node %s holds %s, and the network has %s", demand.Node, listRuns(holds), d))
		}
	}
	return kept, outside
}

// has reports whether one of the declared ranges has the whole of a run.
func (d Declared) has(r ipam.Run) bool {
	return slices.ContainsFunc(d.Ranges, func(o ipam.Run) bool { return o.Contains(r.First) && o.Contains(r.Last) })
}

// String lists the ranges.
func (d Declared) String() string {
	if len(d.Ranges) == 0 {
		return "no ranges"
	}
	var out []string
	for _, r := range d.Ranges {
		out = append(out, r.String())
	}
	return listRuns(out)
}

// listRuns lists the first four of runs in words, and counts the others.
func listRuns(runs []string) string {
	const most = 4
	if len(runs) <= most {
		return strings.Join(runs, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(runs[:most], ", "), len(runs)-most)
}
