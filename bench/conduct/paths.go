package conduct

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/agent"
	"github.com/culvert-net/culvert/bench/evidence"
)

// Site is a network namespace with an agent in it, as the agent describes it.
type Site struct {
	Name    string // of the end in results
	Pod     bool   // a network namespace of its own: a pod's, a container's
	VM      bool   // a virtual machine; Machine is then its host
	Cluster bool   // an interface that is no VF belongs to the cluster's default network
	PCI     string // of the one VF, that DPDK drives; empty: the kernel drives all
	Machine bench.Machine
	Ends    []bench.End
	Service netip.Addr // of a Service that this site alone answers for
	Named   bool       // the order names the Service (--service)
	// Routes has the kernel's route to each address of another site, if there is one.
	Routes map[netip.Addr]agent.Route
}

// Paths returns the paths from one site to another. There is one for each pair of addresses from
// which the two kernels would send to each other, so that traffic takes the same two interfaces
// in both directions. For a Service there is one more for each path that traffic to it may take.
func Paths(from, to Site) []bench.Path {
	if from.isDevice() && to.isDevice() {
		return devicePath(from, to)
	}
	var all []bench.Path
	for _, there := range to.Ends {
		i := slices.IndexFunc(from.Ends, func(e bench.End) bool {
			r, ok := from.Routes[there.Address]
			return ok && e.Address == r.Source
		})
		if i < 0 || to.Routes[from.Ends[i].Address].Source != there.Address || from.Ends[i].Address == there.Address {
			continue // a kernel sends what is for its own address to itself
		}
		p := bench.Path{From: from.nameEnd(from.Ends[i]), To: to.nameEnd(there)}
		p.Ends, p.Network, p.Place = nameEnds(from, to), nameNetwork(from, to, p), namePlace(p)
		all = append(all, p)
		if by := from.replacedOn(p, to); by != "" {
			p.Network, p.Service, p.Replaced = "service", to.Service, by
			all = append(all, p)
		}
	}
	return all
}

// replacedOn returns where the receiver's address takes the place of its Service's, or "" if
// traffic to the Service does not take the path. If packets are changed on the way, the route to
// the Service does not show by which interface they leave. Traffic to a Service that the order
// names may then take any path, and the counters prove which.
func (s Site) replacedOn(p bench.Path, to Site) bench.Replacement {
	r, routed := s.Routes[to.Service]
	switch {
	case !routed || to.Service.Is4() != p.To.Address.Is4():
		return ""
	case r.Peer.IsValid():
		if r.Peer == p.To.Address && (to.Named || s.Pod && p.Network == "overlay") {
			return bench.AtSocket
		}
		return ""
	case to.Named, s.Pod && p.Network == "overlay" && r.Source == p.From.Address:
		return bench.InPackets
	}
	return ""
}

func (s Site) nameEnd(e bench.End) bench.End {
	e.Machine, e.Name = s.Machine.Name, s.Name
	return e
}

func nameEnds(from, to Site) string {
	return from.kindName() + "-" + to.kindName()
}

func (s Site) kindName() string {
	switch {
	case s.VM:
		return "VM"
	case s.Pod:
		return "pod"
	}
	return "node"
}

// nameNetwork returns the network of a path, by the more specific of its ends: a path from a VF to
// its PF has the network "VF".
func nameNetwork(from, to Site, p bench.Path) string {
	is := func(so func(bench.End) bool) bool { return so(p.From) || so(p.To) }
	switch {
	case is(func(e bench.End) bool { return e.PF != "" }):
		return "VF"
	case is(func(e bench.End) bool { return e.Driver == "bonding" }):
		return "bond"
	case is(func(e bench.End) bool { return slices.Contains(tunnels, e.Driver) }):
		return "overlay"
	case is(func(e bench.End) bool { return e.Driver == evidence.VLANDriver }):
		return "VLAN"
	case from.isVirtio(p.From), to.isVirtio(p.To):
		return "virtio"
	case !from.Pod && !to.Pod:
		return "host"
	case from.Cluster || to.Cluster || p.From.Machine != p.To.Machine:
		return "overlay"
	case is(func(e bench.End) bool { return e.Driver == "veth" }):
		return "veth"
	}
	return "host"
}

// isVirtio reports whether an end is a virtio interface that the host made for a guest. A bridge
// or a switch of the host carries its traffic on.
func (s Site) isVirtio(e bench.End) bool { return s.VM && e.Driver == "virtio_net" }

// tunnels are the drivers of interfaces that wrap frames into packets of another
// network (the kind that rtnetlink and ethtool give).
var tunnels = []string{"vxlan", "geneve", "ipip", "ip6tnl", "gre", "wireguard"}

// namePlace returns how far apart the ends are, as far as other switches or wires carry the frames:
// the switch within the NIC joins two VFs of one PF.
func namePlace(p bench.Path) string {
	switch {
	case hostOf(p.From) != hostOf(p.To):
		return "other node"
	case p.From.PF == "" || p.To.PF == "":
		return "same node"
	case p.From.PF == p.To.PF:
		return "same PF"
	}
	return "other PF"
}

// hostOf returns the machine that has the NIC of an end. The port of a virtual machine's VF is
// "HOST/PORT" where the order names it.
func hostOf(e bench.End) string {
	if host, _, isOutside := strings.Cut(e.PF, "/"); isOutside {
		return host
	}
	return e.Machine
}

// Matches reports whether a path matches one of the filters, such as "VF" or "pod-pod,other node":
// the path must have each of the words between commas. Without a filter every path matches.
func Matches(p bench.Path, filters []string) bool {
	return len(filters) == 0 || slices.ContainsFunc(filters, func(f string) bool {
		for word := range strings.SplitSeq(f, ",") {
			if !slices.ContainsFunc(FilterWords(p), func(w string) bool { return strings.EqualFold(w, strings.TrimSpace(word)) }) {
				return false
			}
		}
		return true
	})
}

// FilterWords returns the words of a path that a filter may name.
func FilterWords(p bench.Path) []string {
	words := []string{p.Network, p.Ends, p.Place}
	if from, to, _ := strings.Cut(p.Ends, "-"); from == "VM" || to == "VM" {
		words = append(words, "VM")
	}
	if p.Service.IsValid() && (p.From.PF != "" || p.To.PF != "") {
		words = append(words, "VF")
	}
	return words
}

// Title returns a path in one line: "pod-pod, VF, other node".
func Title(p bench.Path) string { return p.Ends + ", " + p.Network + ", " + p.Place }

// NameArms gives each arm the shortest name that no other has. A prefix that an arm has
// already, such as its size, follows the path's name.
func NameArms(arms []bench.Arm) {
	forms := []func(bench.Path) string{
		func(p bench.Path) string { return p.Network },
		func(p bench.Path) string { return p.Network + ", " + p.Place },
		func(p bench.Path) string { return p.Network + " " + p.From.Interface + "-" + p.To.Interface },
		Title,
		func(p bench.Path) string {
			return fmt.Sprintf("%s, %s to %s", Title(p), p.From.Interface, p.To.Interface)
		},
		func(p bench.Path) string {
			return fmt.Sprintf("%s, %s %s to %s %s", Title(p), p.From.Name, p.From.Address, p.To.Name, p.To.Address)
		},
	}
	suffixes := make([]string, len(arms))
	for i := range arms {
		suffixes[i] = arms[i].Name
	}
	for _, form := range forms {
		seen := map[string]bool{}
		for i := range arms {
			arms[i].Name = strings.TrimSpace(form(arms[i].Path) + " " + suffixes[i])
			seen[arms[i].Name] = true
		}
		if len(seen) == len(arms) {
			return
		}
	}
}
