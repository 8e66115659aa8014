package conduct

import (
	"cmp"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
)

// Ceiling sets the most payload and frames of an arm that the wires can carry, if the speed of at
// least one side is known. Of two known speeds the slower counts. A path within a NIC's own switch,
// or within a machine, has no ceiling, since no wire carries it.
func Ceiling(a *bench.Arm, machine func(bench.End) bench.Machine) {
	a.CeilingGbps, a.CeilingPPS = 0, 0
	var from, to []bench.End
	tags := a.VLANs
	if a.Path.Network == "VLAN" { // the NIC's frames have a tag that the path's interface does not see
		tags++
	}
	w := bench.Wire{MTU: a.MTU(), IPv6: a.Path.From.Address.Is6(), VLANs: tags, Encapsulation: encapsulationOf(a.Path.From, machine)}
	for _, p := range a.Paths() {
		w.NoTimestamps = w.NoTimestamps || hasNoTimestamps(machine(p.From)) || hasNoTimestamps(machine(p.To))
		if p.Place == "same PF" || p.Place == "same node" {
			return
		}
		from, to = append(from, p.From), append(to, p.To)
	}
	flows := max(1, a.Workload.Streams, a.Workload.Flows, a.Workload.Sources, a.Workload.MACs)
	for _, s := range []int{sumSpeeds(from, machine, flows), sumSpeeds(to, machine, flows)} {
		if s > 0 && (w.SpeedMbps == 0 || s < w.SpeedMbps) {
			w.SpeedMbps = s
		}
	}
	a.CeilingGbps, a.CeilingPPS = w.Ceiling(a.Workload)
}

// hasNoTimestamps reports whether a machine is known to put no timestamps into TCP segments: both ends must want them.
func hasNoTimestamps(m bench.Machine) bool {
	return slices.Contains(m.Sysctls, bench.Setting{Name: "net.ipv4.tcp_timestamps", Value: "0"})
}

// sumSpeeds returns the sum of the speeds of the ends' wires, or 0 if one is not known. VFs of one
// PF share a wire.
func sumSpeeds(ends []bench.End, machine func(bench.End) bench.Machine, flows int) (sum int) {
	var wires []bench.End
	for _, e := range ends {
		wire := bench.End{Machine: e.Machine, PF: cmp.Or(e.PF, e.Uplink)}
		if wire.PF == "" {
			wire.Name, wire.Interface = e.Name, e.Interface
		}
		if slices.Contains(wires, wire) {
			continue
		}
		s := speedOfEnd(machine(e), e, flows)
		if s == 0 {
			return 0
		}
		wires, sum = append(wires, wire), sum+s
	}
	return sum
}

// speedOfEnd returns the speed of an end's interface, or of the interface that carries its
// frames. One flow uses one member of a bond, at worst the slowest; several flows may use all.
func speedOfEnd(m bench.Machine, e bench.End, flows int) int {
	members := strings.Split(e.Uplink, "+")
	own := speedOf(m, e.Interface)
	if own > 0 && len(members) < 2 || e.Uplink == "" {
		return own
	}
	slowest, sum := 0, 0
	for _, name := range members {
		s := speedOf(m, name)
		if s == 0 {
			return own
		}
		if sum += s; slowest == 0 || s < slowest {
			slowest = s
		}
	}
	if flows == 1 {
		return slowest
	}
	return sum
}

func speedOf(m bench.Machine, name string) int {
	i := slices.IndexFunc(m.Interfaces, func(i bench.Interface) bool { return i.Name == name })
	if i < 0 {
		return 0
	}
	return m.Interfaces[i].SpeedMbps
}

// encapsulationOf returns how many bytes an overlay adds to each packet, if its MTU leaves room
// for exactly one known header. Otherwise it returns 0, and the path may be unable to reach the
// ceiling.
func encapsulationOf(e bench.End, machine func(bench.End) bench.Machine) int {
	if e.VF != nil || e.MTU == 0 {
		return 0
	}
	interfaces := machine(e).Interfaces
	i := slices.IndexFunc(interfaces, func(i bench.Interface) bool { return i.Name == e.Uplink })
	if i < 0 {
		return 0
	}
	// IP in IP; VXLAN and GENEVE over IPv4; WireGuard over IPv4; VXLAN over IPv6; WireGuard over IPv6.
	if room := interfaces[i].MTU - e.MTU; slices.Contains([]int{20, 50, 60, 70, 80}, room) {
		return room
	}
	return 0
}
