package conduct

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/agent"
)

// Site is a network namespace with an agent in it, as the agent describes it.
type Site struct {
	Name    string // of the end in results
	Pod     bool   // a network namespace of its own: a pod's, a container's
	VM      bool   // a virtual machine; Machine is what it runs on then
	Cluster bool   // what is no VF there is the cluster's default network
	Machine bench.Machine
	Ends    []bench.End
	Service netip.Addr // of a cluster's Service that this pod alone answers for
	// Routes has how the kernel sends to each address of another site that there is a
	// route to.
	Routes map[netip.Addr]agent.Route
}

// Paths are the ways from one site to another. There is one for each two addresses
// that each would be answered from by the other, so that traffic goes both ways
// over the same two interfaces, and to a Service one more, over those of the
// cluster's default network.
func Paths(from, to Site) []bench.Path {
	var all []bench.Path
	for _, there := range to.Ends {
		i := slices.IndexFunc(from.Ends, func(e bench.End) bool {
			r, ok := from.Routes[there.Address]
			return ok && e.Address == r.Source
		})
		if i < 0 || to.Routes[from.Ends[i].Address].Source != there.Address {
			continue
		}
		p := bench.Path{From: from.named(from.Ends[i]), To: to.named(there)}
		p.Ends, p.Network, p.Place = ends(from, to), network(from, to, p), where(p)
		all = append(all, p)
		if p.Network == "overlay" && from.Pod && to.Service.IsValid() && from.Routes[to.Service].Source == p.From.Address {
			p.Network, p.Service = "service", to.Service
			all = append(all, p)
		}
	}
	return all
}

func (s Site) named(e bench.End) bench.End {
	e.Machine, e.Name = s.Machine.Name, s.Name
	return e
}

func ends(from, to Site) string {
	return from.word() + "-" + to.word()
}

func (s Site) word() string {
	switch {
	case s.VM:
		return "VM"
	case s.Pod:
		return "pod"
	}
	return "node"
}

// network names what carries the path, by the one of its ends that makes it what it
// is: a VF's path to its PF is one of VFs.
func network(from, to Site, p bench.Path) string {
	is := func(so func(bench.End) bool) bool { return so(p.From) || so(p.To) }
	switch {
	case is(func(e bench.End) bool { return e.PF != "" }):
		return "VF"
	case is(func(e bench.End) bool { return e.Driver == "bonding" }):
		return "bond"
	case is(func(e bench.End) bool { return slices.Contains(tunnels, e.Driver) }):
		return "overlay"
	case from.virtio(p.From), to.virtio(p.To):
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

// virtio is what a host makes for a guest: a bridge or a switch of its own carries it on.
func (s Site) virtio(e bench.End) bool { return s.VM && e.Driver == "virtio_net" }

// tunnels are the drivers of interfaces that wrap frames into packets of another
// network (the kind that rtnetlink and ethtool give).
var tunnels = []string{"vxlan", "geneve", "ipip", "ip6tnl", "gre", "wireguard"}

// where says how far apart the ends are, as far as that changes what carries the
// frames: two VFs of one PF are joined by the switch within the NIC.
func where(p bench.Path) string {
	switch {
	case p.From.Machine != p.To.Machine:
		return "other node"
	case p.From.PF == "" || p.To.PF == "":
		return "same node"
	case p.From.PF == p.To.PF:
		return "same PF"
	}
	return "other PF"
}

// Matches says whether a path is one of those that a person asks for with words such as
// "VF" or "pod-pod,other node": each word, between commas, is one of its names. No
// filter takes every path.
func Matches(p bench.Path, filters []string) bool {
	return len(filters) == 0 || slices.ContainsFunc(filters, func(f string) bool {
		for word := range strings.SplitSeq(f, ",") {
			if !slices.ContainsFunc(Words(p), func(w string) bool { return strings.EqualFold(w, strings.TrimSpace(word)) }) {
				return false
			}
		}
		return true
	})
}

// Words are the names of a path that a filter may have.
func Words(p bench.Path) []string {
	words := []string{p.Network, p.Ends, p.Place}
	if from, to, _ := strings.Cut(p.Ends, "-"); from == "VM" || to == "VM" {
		words = append(words, "VM")
	}
	return words
}

// Title is a path in one line: "pod-pod, VF, other node".
func Title(p bench.Path) string { return p.Ends + ", " + p.Network + ", " + p.Place }

// Name gives each arm the shortest name that no other has. A prefix that an arm has
// already, such as its size, follows the path's name.
func Name(arms []bench.Arm) {
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

// Mismatch says what about a path's two ends does not fit, and is empty when they fit.
func Mismatch(p bench.Path) string {
	if p.From.MTU != p.To.MTU && p.From.MTU > 0 && p.To.MTU > 0 {
		return fmt.Sprintf("the MTU is %d on %s of %s and %d on %s of %s: larger packets are dropped or split on the way; make them alike (ip link set %[2]s mtu N)",
			p.From.MTU, p.From.Interface, p.From.Name, p.To.MTU, p.To.Interface, p.To.Name)
	}
	return ""
}
