package preset

import (
	"slices"

	"github.com/culvert-net/culvert/bench"
)

// connectArms returns arms with a new connection for each question, to a Service and beside it to
// the same end's own address: at the socket, only connecting costs more.
func connectArms(streams []bench.Arm) (all []bench.Arm) {
	for _, a := range streams {
		beside := slices.ContainsFunc(streams, func(b bench.Arm) bool {
			return b.Path.Service.IsValid() && a.Path.From.Address == b.Path.From.Address && a.Path.To.Address == b.Path.To.Address
		})
		if beside {
			a.Name, a.Workload.Kind = "requests", bench.Connect
			all = append(all, a)
		}
	}
	return all
}
