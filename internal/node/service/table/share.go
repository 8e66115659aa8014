package table

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/network/service"
)

// size is how large the rules of a Service are, computed without making them. It has the number of
// the Service's Frontends, and for each network the most backends that these have together.
type size struct {
	frontends int
	backends  map[service.Network]int
}

func (z size) hasNetwork(n service.Network) bool { _, is := z.backends[n]; return is }

// measureRules returns the size of a Service's rules. A tenant decides how many ports and endpoints a
// Service has, so the rules themselves may be larger than culvertd's memory.
func (m *Maker) measureRules(s *Service, over []*Slice) size {
	ports := m.takenPorts(s)
	out := size{frontends: len(ports) * len(s.ClusterIPs), backends: map[service.Network]int{}}
	for _, slice := range over {
		from := newSource(s, slice)
		matching := 0
		for _, p := range ports {
			if _, ok := from.numbers[p.matchKey()]; ok {
				matching++
			}
		}
		pairs := 0
		for _, e := range from.endpoints {
			for _, addr := range s.ClusterIPs {
				if isSameFamily(addr, e.Addr) {
					pairs++
				}
			}
		}
		out.backends[slice.Network] += matching * pairs
	}
	return out
}

func isSameFamily(a, b netip.Addr) bool { return a.Is4() == b.Is4() }

// limitIn returns the part of a limit that the rules take in a table with these views.
func (z size) limitIn(views map[balance.ViewID][]service.Network, fallback, perPod bool) balance.Limit {
	out := balance.Limit{}
	if !fallback {
		out.Rules = z.frontends
	}
	seen := map[service.Network]bool{}
	for _, networks := range views {
		sees := false
		for _, n := range networks {
			if z.hasNetwork(n) {
				sees, seen[n] = true, true
			}
		}
		if sees {
			out.Rules += z.frontends
		}
	}
	if perPod {
		out.Rules = min(out.Rules, z.frontends)
	}
	for n := range seen {
		out.Backends += z.backends[n]
	}
	return out
}

// need is the part of a limit that a Service needs.
type need struct {
	service string // namespace/name
	balance.Limit
}

// chooseLost returns the Services that are left out, so that the others fit into a limit. Each
// namespace has an equal share of the limit; the part that it does not need is divided among the
// others. So a namespace that needs no more than its share keeps all Services (TestI9RoomIsShared).
// A namespace that needs more keeps its small Services, and the first by name among equal ones.
func chooseLost(all []need, limit balance.Limit) map[string]bool {
	limit = limit.OrUnlimited()
	byNamespace, sums := map[string][]need{}, map[string]balance.Limit{}
	for _, n := range all {
		namespace, _, _ := strings.Cut(n.service, "/")
		byNamespace[namespace] = append(byNamespace[namespace], n)
		sums[namespace] = sums[namespace].Plus(n.Limit)
	}
	weigh := func(l balance.Limit) float64 {
		return max(float64(l.Rules)/float64(limit.Rules), float64(l.Backends)/float64(limit.Backends))
	}
	order := slices.SortedFunc(maps.Keys(sums), func(a, b string) int {
		return cmp.Or(cmp.Compare(weigh(sums[a]), weigh(sums[b])), cmp.Compare(a, b))
	})
	lost, left := map[string]bool{}, limit
	for i, namespace := range order {
		others := len(order) - i
		share := balance.Limit{Rules: left.Rules / others, Backends: left.Backends / others}
		services := byNamespace[namespace]
		slices.SortFunc(services, func(a, b need) int {
			return cmp.Or(cmp.Compare(weigh(a.Limit), weigh(b.Limit)), cmp.Compare(a.service, b.service))
		})
		for _, n := range services {
			if n.Rules > share.Rules || n.Backends > share.Backends {
				lost[n.service] = true
				continue
			}
			share, left = share.Minus(n.Limit), left.Minus(n.Limit)
		}
	}
	return lost
}
