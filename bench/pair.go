package bench

import (
	"maps"
	"math"
	"reflect"
	"slices"
)

// Pair is two arms of one result that differ only in their paths.
type Pair struct {
	Arm, Base  int // indices in Result.Arms
	Is, Was    Interval
	Difference            // by the main metric of their workload
	CPU        Difference // by the metric "cpu"; NaN where there is none
}

// Pairs compares arms of the same workload between ends of one kind: each arm over a VF with each
// other arm, or, if all or none are over VFs, each arm with the first. A Service over VFs is
// compared with the receiver's own address. Pairs does not compare a pod's path with a node's, a
// path on one node with a path between nodes, or a path with itself. In an A/B measurement it
// compares each arm of side B with that of side A. All pairs of a result are one family of
// comparisons, and their CPU figures another.
func (r Result) Pairs() []Pair {
	out := r.choosePairs()
	for k := range out {
		out[k].compareRounds(r, len(out))
	}
	return AsFamily(out)
}

// choosePairs returns the pairs, without figures.
func (r Result) choosePairs() (out []Pair) {
	if len(r.Sides) > 0 {
		a := r.armsOfSide(0)
		for k, arm := range r.armsOfSide(1) {
			out = append(out, Pair{Arm: arm, Base: a[k]})
		}
		return out
	}
	for i, base := range r.Arms {
		first := slices.IndexFunc(r.Arms, base.isAlike) == i
		mixed := r.isMixed(base)
		for j, arm := range r.Arms {
			if arm.isOwnOf(base) {
				continue
			}
			if base.isOwnOf(arm) {
				out = append(out, Pair{Arm: j, Base: i})
				continue
			}
			if i == j || !base.isAlike(arm) || r.differInMechanism(i, j) != "" || reflect.DeepEqual(base.Paths(), arm.Paths()) || mixed && (base.overVF() || !arm.overVF()) || !mixed && !first {
				continue
			}
			out = append(out, Pair{Arm: j, Base: i})
		}
	}
	return out
}

// AsFamily returns pairs with p and bounds corrected for these pairs alone. What belongs to a family
// must not depend on the figures.
func AsFamily(pairs []Pair) []Pair {
	out := slices.Clone(pairs)
	family, costs := make([]*Difference, len(out)), make([]*Difference, len(out))
	for k := range out {
		family[k], costs[k] = &out[k].Difference, &out[k].CPU
	}
	adjustHolm(family)
	adjustHolm(costs)
	return out
}

// isOwnOf reports whether a goes over VFs to the receiver's own address, and b goes between the
// same ends to the receiver's Service.
func (a Arm) isOwnOf(b Arm) bool {
	over := b.Path
	over.Network, over.Service, over.Replaced = a.Path.Network, a.Path.Service, a.Path.Replaced
	return a.overVF() && b.Path.Service.IsValid() && a.isAlike(b) && reflect.DeepEqual(over, a.Path)
}

func (a Arm) overVF() bool { return a.Path.Network == "VF" }

// isAlike reports whether two arms may be compared: one workload, by the same mechanisms, between
// ends of one kind.
func (a Arm) isAlike(b Arm) bool {
	return a.Workload == b.Workload && a.Path.Ends == b.Path.Ends && a.betweenMachines() == b.betweenMachines() && len(a.Also) == len(b.Also)
}

func (a Arm) betweenMachines() bool { return a.Path.From.Machine != a.Path.To.Machine }

// isMixed reports whether, of the arms like that one, some go over VFs and others do not.
func (r Result) isMixed(like Arm) bool {
	over := func(vf bool) bool {
		return slices.ContainsFunc(r.Arms, func(a Arm) bool { return like.isAlike(a) && a.overVF() == vf })
	}
	return over(true) && over(false)
}

// compareRounds fills in a pair's figures, by the rounds that both arms have.
func (p *Pair) compareRounds(r Result, family int) {
	main := r.Arms[p.Arm].Main()
	differ := differRounds
	if len(r.Sides) > 0 {
		differ = differShared
	}
	is, was := r.byRound(p.Arm, main), r.byRound(p.Base, main)
	p.Is, p.Was = Estimate(r.Values(p.Arm, main)), Estimate(r.Values(p.Base, main))
	p.Difference = differ(is, was, family)
	p.CPU = Differ(nil, nil)
	for _, m := range Metrics(r.Arms[p.Arm].Workload.Kind) {
		if m.Name == "cpu" {
			p.CPU = differ(r.byRound(p.Arm, m), r.byRound(p.Base, m), family)
		}
	}
}

// differRounds compares by round where both have the same rounds.
func differRounds(is, was map[int]float64, family int) Difference {
	var a, b []float64
	shared := 0
	for _, round := range slices.Sorted(maps.Keys(is)) {
		a = append(a, is[round])
		if _, both := was[round]; both {
			shared++
		}
	}
	for _, round := range slices.Sorted(maps.Keys(was)) {
		b = append(b, was[round])
	}
	if shared == len(is) && shared == len(was) {
		return differByRound(a, b, family)
	}
	return differBy(a, b, family)
}

// differShared compares by the rounds that both have.
func differShared(is, was map[int]float64, family int) Difference {
	a, b := sharedRounds(is, was)
	return differPaired(a, b, family)
}

// Tries is how many times a run of a round is made at most, while it is void.
const Tries = 3

// byRound returns the values of [Result.Values] by round. Runs are in the order of rounds; each
// round has every arm once, or up to Tries times if its runs are void.
func (r Result) byRound(arm int, m Metric) map[int]float64 {
	out := map[int]float64{}
	round, void := 0, 0
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Arm != arm || run.Discard {
			continue
		}
		if run.Void != "" {
			if void++; void == Tries {
				round, void = round+1, 0
			}
			continue
		}
		if v := m.Of(r.Arms[arm], *run); !math.IsNaN(v) {
			out[round] = v
		}
		round, void = round+1, 0
	}
	return out
}

// RatiosByRound returns the values of two arms' main metric as a ratio, for each round in which a
// run of both counts.
func (r Result) RatiosByRound(arm, base int) (all []float64) {
	main := r.Arms[arm].Main()
	is, was := r.byRound(arm, main), r.byRound(base, main)
	for _, round := range slices.Sorted(maps.Keys(is)) {
		if b, both := was[round]; both && b != 0 {
			all = append(all, is[round]/b)
		}
	}
	return all
}

// MTU returns the smallest MTU of the arm's ends, or 0 if one is not known.
func (a Arm) MTU() int {
	least := a.Path.From.MTU
	for _, p := range a.Paths() {
		least = min(least, p.From.MTU, p.To.MTU)
	}
	return least
}
