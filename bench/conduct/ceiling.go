package conduct

import (
	"slices"

	"github.com/culvert-net/culvert/bench"
)

// Ceiling sets what the wire can carry of an arm's payload and frames, where both
// ends or one know how fast it is. Of two it is the slower. An interface without
// hardware has no ceiling.
func Ceiling(a *bench.Arm, from, to bench.Machine) {
	w := bench.Wire{MTU: min(a.Path.From.MTU, a.Path.To.MTU), IPv6: a.Path.From.Address.Is6()}
	for _, s := range []int{speed(from, a.Path.From.Interface), speed(to, a.Path.To.Interface)} {
		if s > 0 && (w.SpeedMbps == 0 || s < w.SpeedMbps) {
			w.SpeedMbps = s
		}
	}
	a.CeilingGbps, a.CeilingPPS = w.Ceiling(a.Workload)
}

func speed(m bench.Machine, name string) int {
	i := slices.IndexFunc(m.Interfaces, func(i bench.Interface) bool { return i.Name == name })
	if i < 0 {
		return 0
	}
	return m.Interfaces[i].SpeedMbps
}
