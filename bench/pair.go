package bench

import "slices"

// Pair is two arms of one result that differ in their path alone.
type Pair struct {
	Arm, Base  int // indices in Result.Arms
	Is, Was    Interval
	Difference            // by the metric that their workload is about
	CPU        Difference // by the metric "cpu"; NaN where there is none
}

// Pairs compares arms of the same workload: each over a VF with each that is not,
// and where there are not both, each with the first.
func (r Result) Pairs() []Pair {
	var out []Pair
	for i, base := range r.Arms {
		first := slices.IndexFunc(r.Arms, func(a Arm) bool { return a.Workload == base.Workload }) == i
		for j, arm := range r.Arms {
			if i == j || arm.Workload != base.Workload {
				continue
			}
			if r.mixed(base.Workload) {
				if base.overVF() || !arm.overVF() {
					continue
				}
			} else if !first {
				continue
			}
			out = append(out, r.pair(j, i))
		}
	}
	return out
}

func (a Arm) overVF() bool { return a.Path.Network == "VF" }

// mixed reports whether a workload was sent over VFs and over something else.
func (r Result) mixed(w Workload) bool {
	vf := func(want bool) bool {
		return slices.ContainsFunc(r.Arms, func(a Arm) bool { return a.Workload == w && a.overVF() == want })
	}
	return vf(true) && vf(false)
}

func (r Result) pair(arm, base int) Pair {
	main := r.Arms[arm].Main()
	is, was := r.Values(arm, main), r.Values(base, main)
	p := Pair{Arm: arm, Base: base, Is: Estimate(is), Was: Estimate(was), Difference: Differ(is, was), CPU: Differ(nil, nil)}
	for _, m := range Metrics(r.Arms[arm].Workload.Kind) {
		if m.Name == "cpu" {
			p.CPU = Differ(r.Values(arm, m), r.Values(base, m))
		}
	}
	return p
}
