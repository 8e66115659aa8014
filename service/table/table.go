// Package table decides where the connections of this node's pods to Services over VF
// networks go. In go Services and Culvert's EndpointSlices, the node, and its pods with the
// networks that they are attached to; out comes the [balance.Table] of the kernel. The rules
// are kube-proxy's (pkg/proxy/topology.go of Kubernetes), but for one: where
// internalTrafficPolicy is Local and the node has no endpoint, kube-proxy drops packets, and
// Culvert refuses the connection. Package kube makes the values, service/agent keeps a Maker.
package table

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/culvert-net/culvert/kernel/balance"
	"github.com/culvert-net/culvert/service"
)

// Service is the part of a Service that its clients use.
type Service struct {
	Name       string // namespace/name
	ClusterIPs []netip.Addr
	Ports      []Port
	Affinity   time.Duration // 0: none
	// Local is internalTrafficPolicy Local: only endpoints of the node serve its pods.
	Local bool
	// Fallback leaves clients without the network to kube-proxy.
	Fallback bool
}

// Port is a port of a Service, or of an EndpointSlice. They match by name and protocol.
type Port struct {
	Name     string
	Number   uint16
	Protocol balance.Protocol
}

// Slice is an EndpointSlice that Culvert's controller made.
type Slice struct {
	Name      string // namespace/name; slices are taken in this order
	Service   string // namespace/name
	Network   service.Network
	Ports     []Port
	Endpoints []Endpoint
}

// Endpoint is a pod behind a Service.
type Endpoint struct {
	Addr                        netip.Addr
	Here                        bool // on this node
	Ready, Serving, Terminating bool
	// Nodes and Zones are those whose clients the endpoint is meant for.
	Nodes, Zones []string
}

// Client is a pod of the node with a VF that the kernel drives.
type Client struct {
	ID       string // of the sandbox
	Netns    string
	Networks []service.Network
}

// Node is the node that the pods are on.
type Node struct{ Name, Zone string }

// Input is everything that a table follows from.
type Input struct {
	Node     Node
	Services []*Service
	Slices   []*Slice
	Clients  []Client
}

// Maker makes tables. It keeps the rules of the last table. It makes the rules of a Service anew
// if the Service or one of its slices is another pointer, so callers must not change the objects
// behind the pointers. The zero value is ready.
type Maker struct {
	node Node
	made map[string]made // by Service.Name
}

// made is a Service with its slices in their order, and its rules by network. foreign has the
// rules for pods of other networks.
type made struct {
	service *Service
	slices  []*Slice
	rules   map[service.Network]balance.View
	foreign balance.View
}

// Make returns the table. A pod sees the Services of the networks it is attached to; those of
// other networks refuse it, or are left to kube-proxy where their owner chose the fallback (I9:
// TestI9ForeignServices). A Service can have slices of two networks of a pod, while it changes
// from one to the other. The pod then sees the slices of the network that has endpoints.
func (m *Maker) Make(in Input) balance.Table {
	old := m.made
	if m.node != in.Node {
		old = nil
	}
	m.node, m.made = in.Node, map[string]made{}
	views, t := clientViews(in.Clients)
	if len(views) == 0 {
		return t
	}
	t.Views[balance.Foreign] = balance.View{}
	slicesOf := map[string][]*Slice{}
	for _, s := range in.Slices {
		slicesOf[s.Service] = append(slicesOf[s.Service], s)
	}
	for _, s := range in.Services {
		over := slicesOf[s.Name]
		if len(over) == 0 {
			continue // it is not served over a VF network
		}
		slices.SortFunc(over, func(a, b *Slice) int { return cmp.Compare(a.Name, b.Name) })
		rules, there := old[s.Name]
		if !there || rules.service != s || !slices.Equal(rules.slices, over) {
			rules = in.Node.make(s, over)
		}
		m.made[s.Name] = rules
		for id, networks := range views {
			for _, n := range networks {
				addRules(t.Views[id], rules.rules[n])
			}
		}
		addRules(t.Views[balance.Foreign], rules.foreign)
	}
	return t
}

// make makes the rules of a Service.
func (n Node) make(s *Service, over []*Slice) made {
	out := made{service: s, slices: over, rules: map[service.Network]balance.View{}}
	for _, slice := range over {
		if out.rules[slice.Network] == nil {
			out.rules[slice.Network] = n.rules(s, slice.Network, over)
		}
	}
	if !s.Fallback {
		out.foreign = refuseAll(s)
	}
	return out
}

// clientViews returns the networks of each view, and a table with the pods and empty views.
func clientViews(clients []Client) (map[balance.ViewID][]service.Network, balance.Table) {
	views, t := map[balance.ViewID][]service.Network{}, balance.Table{Views: map[balance.ViewID]balance.View{}}
	for _, c := range clients {
		networks := slices.Clone(c.Networks)
		slices.SortFunc(networks, func(a, b service.Network) int { return cmp.Compare(a.String(), b.String()) })
		networks = slices.Compact(networks)
		id := viewID(networks)
		views[id], t.Views[id] = networks, balance.View{}
		t.Pods = append(t.Pods, balance.Pod{ID: c.ID, Netns: c.Netns, View: id})
	}
	return views, t
}

// viewID returns the first 8 bytes of a hash of sorted networks, so that no tenant finds a
// set of networks with the view of another set.
func viewID(networks []service.Network) balance.ViewID {
	var all []string
	for _, n := range networks {
		all = append(all, n.String())
	}
	hash := sha256.Sum256([]byte(strings.Join(all, ",")))
	return balance.ViewID(max(binary.BigEndian.Uint64(hash[:]), 1)) // 0 is balance.Foreign
}

// addRules adds rules to a view, in the place of those without backends.
func addRules(view, rules balance.View) {
	for f, r := range rules {
		if old := view[f]; old == nil || len(old.Backends) == 0 {
			view[f] = r
		}
	}
}

func refuseAll(s *Service) balance.View {
	out := balance.View{}
	for _, addr := range s.ClusterIPs {
		for _, p := range s.Ports {
			out[balance.Frontend{Addr: addr, Port: p.Number, Protocol: p.Protocol}] = &balance.Rule{}
		}
	}
	return out
}

// rules returns the rules of a Service for pods of one network.
func (n Node) rules(s *Service, over service.Network, all []*Slice) balance.View {
	out := refuseAll(s)
	for f, r := range out {
		r.Affinity = s.Affinity
		var endpoints []Endpoint
		var ports []uint16
		for _, slice := range all {
			if slice.Network != over {
				continue
			}
			number, ok := matchPort(s, slice, f)
			if !ok {
				continue
			}
			for _, e := range slice.Endpoints {
				if e.Addr.Is4() == f.Addr.Is4() {
					endpoints, ports = append(endpoints, e), append(ports, number)
				}
			}
		}
		for _, i := range n.choose(s, endpoints) {
			r.Backends = append(r.Backends, netip.AddrPortFrom(endpoints[i].Addr, ports[i]))
		}
		slices.SortFunc(r.Backends, netip.AddrPort.Compare)
		r.Backends = slices.Clip(slices.Compact(r.Backends))
	}
	return out
}

// matchPort returns the number that a Frontend's port has in a slice.
func matchPort(s *Service, slice *Slice, f balance.Frontend) (uint16, bool) {
	for _, p := range s.Ports {
		if p.Number != f.Port || p.Protocol != f.Protocol {
			continue
		}
		for _, target := range slice.Ports {
			if target.Name == p.Name && target.Protocol == p.Protocol && target.Number != 0 {
				return target.Number, true
			}
		}
	}
	return 0, false
}
