package conduct

import (
	"cmp"
	"slices"

	"github.com/culvert-net/culvert/bench"
)

// Ceiling sets what the wires can carry of an arm's payload and frames, where both
// sides or one know how fast they are. Of two it is the slower. An interface without
// hardware has no ceiling.
func Ceiling(a *bench.Arm, machine func(bench.End) bench.Machine) {
	var from, to []bench.End
	w := bench.Wire{MTU: min(a.Path.From.MTU, a.Path.To.MTU), IPv6: a.Path.From.Address.Is6()}
	for _, p := range a.Paths() {
		from, to, w.MTU = append(from, p.From), append(to, p.To), min(w.MTU, p.From.MTU, p.To.MTU)
	}
	for _, s := range []int{speeds(from, machine), speeds(to, machine)} {
		if s > 0 && (w.SpeedMbps == 0 || s < w.SpeedMbps) {
			w.SpeedMbps = s
		}
	}
	a.CeilingGbps, a.CeilingPPS = w.Ceiling(a.Workload)
}

// speeds sums those of the ends' wires; VFs of one PF have one. 0 is not known.
func speeds(ends []bench.End, machine func(bench.End) bench.Machine) (sum int) {
	var wires []bench.End
	for _, e := range ends {
		wire := bench.End{Machine: e.Machine, PF: cmp.Or(e.PF, e.Uplink)}
		if wire.PF == "" {
			wire.Name, wire.Interface = e.Name, e.Interface
		}
		if slices.Contains(wires, wire) {
			continue
		}
		s := speed(machine(e), e.Interface)
		if s == 0 {
			return 0
		}
		wires, sum = append(wires, wire), sum+s
	}
	return sum
}

func speed(m bench.Machine, name string) int {
	i := slices.IndexFunc(m.Interfaces, func(i bench.Interface) bool { return i.Name == name })
	if i < 0 {
		return 0
	}
	return m.Interfaces[i].SpeedMbps
}
