package blocks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/network/ipam"
)

// Declared has the addresses that the configuration of a network allows to give out of its pool.
type Declared struct {
	// Sets has the range sets. An address that only one pod gets is a set of its own.
	Sets [][]ipam.Run
	// AnyAddress is set where pods choose their addresses themselves (type static).
	AnyAddress bool
	// Open is set where a network may be one that only the nodes know, as a file on them. Then
	// nodes may request other addresses, too, of which each gets a share.
	Open bool
}

// ShareSets returns the range sets of which each node gets a share (Pool.Sets). If d is open, the
// other addresses of each family are one, too.
func (d Declared) ShareSets() [][]ipam.Run {
	out := slices.Clone(d.Sets)
	if out == nil {
		out = [][]ipam.Run{}
	}
	if !d.Open {
		return out
	}
	for i := range anything {
		if rest := withoutAll(anything[i:i+1], d.allRanges()); len(rest) > 0 {
			out = append(out, rest)
		}
	}
	return out
}

// AddSection adds the addresses that the ipam section of a network declares.
func (d *Declared) AddSection(c ipam.Config) {
	d.AnyAddress = d.AnyAddress || c.Type == ipam.TypeStatic
	for _, a := range c.Static {
		d.addSet([]ipam.Run{{First: a.Prefix.Addr(), Last: a.Prefix.Addr()}})
	}
	for _, set := range c.Sets {
		var runs []ipam.Run
		for _, r := range set {
			runs = append(runs, ipam.Run{First: r.Start, Last: r.End})
		}
		d.addSet(runs)
	}
}

// addSet adds a range set, unless it is there: copies of a network have the same.
func (d *Declared) addSet(set []ipam.Run) {
	if !slices.ContainsFunc(d.Sets, func(o []ipam.Run) bool { return slices.Equal(o, set) }) {
		d.Sets = append(d.Sets, set)
	}
}

// Confine removes requests for addresses that the network does not declare from demands, and
// describes them: the author of the network decides which addresses it has, and a node may be
// wrong or lie. It also describes held addresses outside of the ranges, as after a change of the
// network. These stay demands, since the controller must know every held address (I4). All demands
// stay if d is open.
func (d Declared) Confine(demands []Demand) (kept []Demand, outside []string) {
	if d.Open {
		return demands, nil
	}
	for _, demand := range demands {
		var requests, holds []string
		demand.Ranges = slices.DeleteFunc(slices.Clone(demand.Ranges), func(r ipam.Run) bool {
			if d.Has(r) {
				return false
			}
			requests = append(requests, r.String())
			return true
		})
		demand.Claims = slices.DeleteFunc(slices.Clone(demand.Claims), func(c Claim) bool {
			switch {
			case d.AnyAddress || d.Has(ipam.Run{First: c.Addr, Last: c.Addr}):
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

// Has reports whether one of the declared ranges contains a whole run.
func (d Declared) Has(r ipam.Run) bool {
	return slices.ContainsFunc(d.Sets, func(set []ipam.Run) bool {
		return slices.ContainsFunc(set, func(o ipam.Run) bool { return o.Contains(r.First) && o.Contains(r.Last) })
	})
}

// allRanges returns the ranges of all sets.
func (d Declared) allRanges() []ipam.Run { return slices.Concat(d.Sets...) }

// String lists the ranges.
func (d Declared) String() string {
	var out []string
	for _, r := range d.allRanges() {
		out = append(out, r.String())
	}
	if len(out) == 0 {
		return "no ranges"
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
