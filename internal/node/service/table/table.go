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
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/network/service"
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

// Input is everything from which a table is computed.
type Input struct {
	Node     Node
	Services []*Service
	Slices   []*Slice
	Clients  []Client
}

// Maker makes the tables of one mechanism. It keeps the rules of the last table. It makes the rules
// of a Service anew if the Service or one of its slices is another pointer, so callers must not
// change the objects behind the pointers. The zero value is ready.
type Maker struct {
	// Takes reports whether the mechanism balances a protocol; nil means that it balances all.
	Takes func(balance.Protocol) bool
	// Limit bounds the tables.
	Limit balance.Limit

	node Node
	made map[string]*made // by Service.Name
	lost []string
}

// made is a Service with its slices in their order, and its rules by network, as far as a table
// needed them. foreign has the rules for pods of other networks.
type made struct {
	service *Service
	slices  []*Slice
	size    size
	rules   map[service.Network]balance.View
	foreign balance.View
}

// Lost returns the Services that the last table does not have, since their namespaces use more
// than their share of the Limit, sorted.
func (m *Maker) Lost() []string { return m.lost }

// Make returns the table. A pod sees the Services of the networks it is attached to. Services of
// other networks refuse its connections, or are left to kube-proxy where their owner chose the
// fallback (I9: TestI9ForeignServices). A Service can have slices of two networks of a pod, while
// it changes from one to the other. The pod then sees the slices of the network that has endpoints.
// Services beyond their namespace's share of the Limit are left to kube-proxy, which refuses them
// or has their fallback (TestI9RoomIsShared).
func (m *Maker) Make(in Input) balance.Table {
	old := m.made
	if m.node != in.Node {
		old = nil
	}
	m.node, m.made, m.lost = in.Node, map[string]*made{}, nil
	views, t := clientViews(in.Clients)
	if len(views) == 0 {
		return t
	}
	t.Views[balance.Foreign] = balance.View{}
	slicesOf := map[string][]*Slice{}
	for _, s := range in.Slices {
		slicesOf[s.Service] = append(slicesOf[s.Service], s)
	}
	var needs []need
	for _, s := range in.Services {
		over := slicesOf[s.Name]
		if len(over) == 0 {
			continue // it is not served over a VF network
		}
		slices.SortFunc(over, func(a, b *Slice) int { return cmp.Compare(a.Name, b.Name) })
		one := old[s.Name]
		if one == nil || one.service != s || !slices.Equal(one.slices, over) {
			one = &made{service: s, slices: over, size: m.measureRules(s, over)}
		}
		m.made[s.Name] = one
		needs = append(needs, need{s.Name, one.size.limitIn(views, s.Fallback, m.Limit.PerPod)})
	}
	lost := chooseLost(needs, m.Limit)
	m.lost = slices.Sorted(maps.Keys(lost))
	for name, one := range m.made {
		if lost[name] {
			one.rules, one.foreign = nil, nil // they may be large
			continue
		}
		m.addService(t, views, one)
	}
	return t
}

// addService adds the rules of a Service to the views of a table.
func (m *Maker) addService(t balance.Table, views map[balance.ViewID][]service.Network, one *made) {
	if one.rules == nil {
		one.rules = map[service.Network]balance.View{}
		if !one.service.Fallback {
			one.foreign = m.refuseAll(one.service)
		}
	}
	for id, networks := range views {
		for _, n := range networks {
			if !one.size.hasNetwork(n) {
				continue
			}
			if one.rules[n] == nil {
				one.rules[n] = m.rules(one.service, n, one.slices)
			}
			addRules(t.Views[id], one.rules[n])
		}
	}
	addRules(t.Views[balance.Foreign], one.foreign)
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

// addRules adds rules to a view. They replace rules without backends.
func addRules(view, rules balance.View) {
	for f, r := range rules {
		if old := view[f]; old == nil || len(old.Backends) == 0 {
			view[f] = r
		}
	}
}

// takenPorts returns the ports of a Service that the mechanism balances.
func (m *Maker) takenPorts(s *Service) (out []Port) {
	for _, p := range s.Ports {
		if m.Takes == nil || m.Takes(p.Protocol) {
			out = append(out, p)
		}
	}
	return out
}

func (m *Maker) refuseAll(s *Service) balance.View {
	out := balance.View{}
	for _, addr := range s.ClusterIPs {
		for _, p := range m.takenPorts(s) {
			out[balance.Frontend{Addr: addr, Port: p.Number, Protocol: p.Protocol}] = &balance.Rule{}
		}
	}
	return out
}

// rules returns the rules of a Service for pods of one network.
func (m *Maker) rules(s *Service, over service.Network, all []*Slice) balance.View {
	var sources []source
	for _, slice := range all {
		if slice.Network == over {
			sources = append(sources, newSource(s, slice))
		}
	}
	out := balance.View{}
	var endpoints []Endpoint
	var numbers []uint16
	for _, p := range m.takenPorts(s) {
		for _, addr := range s.ClusterIPs {
			endpoints, numbers = endpoints[:0], numbers[:0]
			for _, from := range sources {
				number, ok := from.numbers[p.matchKey()]
				for _, e := range from.endpoints {
					if ok && e.Addr.Is4() == addr.Is4() {
						endpoints, numbers = append(endpoints, e), append(numbers, number)
					}
				}
			}
			r := &balance.Rule{Affinity: s.Affinity}
			for _, i := range m.node.choose(s, endpoints) {
				r.Backends = append(r.Backends, netip.AddrPortFrom(endpoints[i].Addr, numbers[i]))
			}
			slices.SortFunc(r.Backends, netip.AddrPort.Compare)
			r.Backends = slices.Clip(slices.Compact(r.Backends))
			out[balance.Frontend{Addr: addr, Port: p.Number, Protocol: p.Protocol}] = r
		}
	}
	return out
}

// portKey is how ports of a Service and of an EndpointSlice match.
type portKey struct {
	name     string
	protocol balance.Protocol
}

func (p Port) matchKey() portKey { return portKey{p.Name, p.Protocol} }

// source is the part of an EndpointSlice that rules are made from.
type source struct {
	numbers   map[portKey]uint16
	endpoints []Endpoint // that can take connections
}

func newSource(s *Service, slice *Slice) source {
	out := source{numbers: map[portKey]uint16{}}
	for _, p := range slice.Ports {
		if _, there := out.numbers[p.matchKey()]; !there && p.Number != 0 {
			out.numbers[p.matchKey()] = p.Number
		}
	}
	for _, e := range slice.Endpoints {
		if (e.Ready || e.Serving && e.Terminating) && (!s.Local || e.Here) {
			out.endpoints = append(out.endpoints, e)
		}
	}
	return out
}
