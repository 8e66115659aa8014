package preset

import (
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
)

// atOnce is a recipe's arms over several paths at once, where the place has them.
type atOnce struct {
	workload bench.Workload // of each path
	// alike returns the part of a path that the paths of one arm have in common.
	alike func(bench.Path) bench.Path
	most  int                // paths of an arm; 0 is all there are
	name  func(n int) string // of an arm with n paths
}

// toOne is m11: senders have an interface each, and one receiver.
var toOne = &atOnce{
	workload: changeWorkload(small, func(w *bench.Workload) { w.Engine, w.Streams = engine.Own, 1 }),
	alike: func(p bench.Path) bench.Path {
		to := interfaceOf(p.To)
		if p.Network == "VLAN" { // a NIC has one interface of a VLAN, so each sender has a VLAN of its own
			to.Interface = ""
		}
		return bench.Path{Ends: p.Ends, Network: p.Network, Place: p.Place, To: to}
	},
	most: 3,
	name: func(n int) string { return fmt.Sprintf("%d senders", n) },
}

// ofOnePF is m16: the VFs of one PF send, each to a receiver of its own as far as there are so many.
var ofOnePF = &atOnce{
	workload: toOne.workload,
	alike: func(p bench.Path) bench.Path {
		return bench.Path{Ends: p.Ends, Network: p.Network, Place: p.Place, From: bench.End{Machine: p.From.Machine, PF: p.From.PF}}
	},
	name: func(n int) string { return fmt.Sprintf("%d at once", n) },
}

// interfaceOf returns the parts of an end that identify its interface.
func interfaceOf(e bench.End) bench.End {
	return bench.End{Machine: e.Machine, Name: e.Name, Interface: e.Interface}
}

// groupPaths returns the paths of each arm, at least two. No two begin at the same interface, and
// their ends are spread over the receivers' interfaces.
func (t *atOnce) groupPaths(paths []bench.Path) [][]bench.Path {
	var groups [][]bench.Path
	for len(paths) > 0 {
		like := t.alike(paths[0])
		var group, rest []bench.Path
		for _, p := range paths {
			if t.alike(p) == like {
				group = append(group, p)
			} else {
				rest = append(rest, p)
			}
		}
		if group = spreadPaths(group); t.most > 0 {
			group = group[:min(t.most, len(group))]
		}
		if len(group) > 1 {
			groups = append(groups, group)
		}
		paths = rest
	}
	return groups
}

// spreadPaths takes one path from each interface, to the interface that is the end of the fewest
// paths so far.
func spreadPaths(paths []bench.Path) []bench.Path {
	var out []bench.Path
	for i, p := range paths {
		from := interfaceOf(p.From)
		if slices.ContainsFunc(out, func(o bench.Path) bool { return interfaceOf(o.From) == from }) {
			continue
		}
		best, fewest := p, len(paths)
		for _, other := range paths[i:] {
			n := 0
			for _, o := range out {
				if interfaceOf(o.To) == interfaceOf(other.To) {
					n++
				}
			}
			if interfaceOf(other.From) == from && n < fewest {
				best, fewest = other, n
			}
		}
		out = append(out, best)
	}
	return out
}

// addArms adds the arms over several paths at once to a plan, and reports whether there are any.
func (t *atOnce) addArms(plan *Plan, paths []bench.Path, quick bool) bool {
	w := t.workload
	if quick {
		w = shortenRun(w)
	}
	for _, g := range t.groupPaths(paths) {
		w.Senders = len(g)
		plan.Arms = append(plan.Arms, bench.Arm{Name: t.name(len(g)), Path: g[0], Also: g[1:], Workload: w})
		if len(g) < t.most {
			plan.addNote(fmt.Sprintf("the report had %d senders; here there are %d", t.most, len(g)))
		}
	}
	if len(plan.Arms) == 0 {
		return false
	}
	plan.addNote("pktgen, which the report used, counts all packets that come to an interface, from any sender, and begins when it is started: Culvert's own engine sends the same instead, all at once")
	return true
}
