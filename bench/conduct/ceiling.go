package conduct

import (
	"cmp"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/evidence"
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
	flows := len(from) * max(1, a.Workload.Streams, a.Workload.Flows, a.Workload.Sources, a.Workload.MACs)
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

// wire is a NIC's, by the NIC's PCI address where that is known.
type wire struct{ machine, nic string }

// sumSpeeds returns the sum of the speeds of the ends' wires, or 0 if one is not known. Each wire
// counts once: VFs of one PF share it, also with the PF itself, a bond of it and an overlay over it.
func sumSpeeds(ends []bench.End, machine func(bench.End) bench.Machine, flows int) (sum int) {
	wires := map[wire]int{}
	for _, e := range ends {
		under := wiresOf(machine(e), e, flows)
		hidden := e.Driver == evidence.VLANDriver && e.Uplink == "" // its NIC, in another network namespace, may carry other ends too
		if under == nil || hidden && len(ends) > 1 {
			return 0
		}
		for w, speed := range under {
			wires[w] = max(wires[w], speed)
		}
	}
	for _, speed := range wires {
		sum += speed
	}
	return sum
}

// wiresOf returns the wires that carry an end's frames with their speeds, or nil if a speed is not
// known. One flow uses one member of a bond, at worst the slowest; several flows may use all.
func wiresOf(m bench.Machine, e bench.End, flows int) map[wire]int {
	own, found := findInterface(m, e.Interface)
	members := membersOf(m, e)
	if e.PF != "" || len(members) == 0 || own.SpeedMbps > 0 && len(members) == 1 {
		speed := own.SpeedMbps
		at := wire{e.Machine, e.Name + " " + e.Interface}
		switch nic, known := findNIC(m, cmp.Or(e.PF, strings.Join(members, ""))); {
		case known:
			at.nic, speed = cmp.Or(nic.PCI, nic.Name), cmp.Or(speed, nic.SpeedMbps)
		case e.PF != "":
			at.nic = e.PF
		case found && own.PCI != "":
			at.nic = own.PCI
		}
		if speed == 0 {
			return nil
		}
		return map[wire]int{at: speed}
	}
	all := map[wire]int{}
	slowest := wire{}
	for _, name := range members {
		nic, _ := findNIC(m, name)
		if nic.SpeedMbps == 0 {
			return nil
		}
		at := wire{e.Machine, cmp.Or(nic.PCI, nic.Name)}
		if all[at] = nic.SpeedMbps; slowest == (wire{}) || nic.SpeedMbps < all[slowest] {
			slowest = at
		}
	}
	if flows == 1 {
		return map[wire]int{slowest: all[slowest]}
	}
	return all
}

// membersOf returns the NICs in an end's uplink, without a bond or a VLAN that is among them, whose
// speed is that of its members.
func membersOf(m bench.Machine, e bench.End) []string {
	if e.Uplink == "" {
		return nil
	}
	all := strings.Split(e.Uplink, "+")
	if len(all) == 1 {
		return all
	}
	return slices.DeleteFunc(all, func(name string) bool {
		i, _ := findInterface(m, name)
		return slices.Contains([]string{"bonding", evidence.VLANDriver}, i.Driver)
	})
}

func findInterface(m bench.Machine, name string) (bench.Interface, bool) {
	i := slices.IndexFunc(m.Interfaces, func(i bench.Interface) bool { return i.Name == name })
	if i < 0 {
		return bench.Interface{}, false
	}
	return m.Interfaces[i], true
}

// findNIC finds a NIC by its name or its PCI address, which is all that a container sees of a PF.
// Another network namespace may have an interface of the same name that is no NIC.
func findNIC(m bench.Machine, name string) (bench.Interface, bool) {
	i := slices.IndexFunc(m.Interfaces, func(i bench.Interface) bool {
		return name != "" && i.PCI != "" && (i.Name == name || i.PCI == name)
	})
	if i < 0 {
		return findInterface(m, name)
	}
	return m.Interfaces[i], true
}

// encapsulationOf returns how many bytes an overlay adds to each packet, if its MTU leaves room
// for exactly one known header. Otherwise it returns 0, and the path may be unable to reach the
// ceiling.
func encapsulationOf(e bench.End, machine func(bench.End) bench.Machine) int {
	if e.VF != nil || e.MTU == 0 {
		return 0
	}
	uplink, found := findNIC(machine(e), e.Uplink)
	if !found {
		return 0
	}
	// IP in IP; VXLAN and GENEVE over IPv4; WireGuard over IPv4; VXLAN over IPv6; WireGuard over IPv6.
	if room := uplink.MTU - e.MTU; slices.Contains([]int{20, 50, 60, 70, 80}, room) {
		return room
	}
	return 0
}
