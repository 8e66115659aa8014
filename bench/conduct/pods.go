package conduct

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/agent"
	"github.com/culvert-net/culvert/bench/engine"
	"github.com/culvert-net/culvert/bench/place"
	"github.com/culvert-net/culvert/internal/vf"
)

// openPods makes pods in a cluster with an agent in each: where traffic starts, where it stops, and
// between them if the cluster has a pod there.
func (c *Session) openPods(ctx context.Context, cluster place.Cluster) (at opened, err error) {
	pods, err := cluster.Open(ctx)
	if err != nil {
		return at, err
	}
	c.closers = append(c.closers, pods.Close)
	c.cluster = &cluster
	for _, p := range pods.All {
		site := Site{Name: p.Name, Pod: !p.Host, Cluster: true, Machine: bench.Machine{Name: p.Node}} // a pod has a host name of its own
		if p.Role == place.Stops && !p.Host {
			site.Service = pods.Service
		}
		s, err := c.Add(ctx, p.Pipe, site)
		if err != nil {
			return at, fmt.Errorf("pod %s: %w", p.Name, err)
		}
		s.namespace = p.Namespace
		switch {
		case p.Role == place.Starts:
			at.from = append(at.from, s)
		case p.Role == place.Stops:
			at.to = append(at.to, s)
		case !p.Host:
			at.via = s
		}
	}
	if at.via == nil {
		return at, nil
	}
	if err := DescribeStations(ctx, c.Stations); err != nil {
		return at, err
	}
	return at, steerThrough(ctx, ends{at.from[0], place.EndInterface}, ends{at.to[0], place.EndInterface}, ends{at.via, place.ViaIn}, ends{at.via, place.ViaOut})
}

// ends are the addresses of a station's interface.
type ends struct {
	*Station
	iface string
}

// address returns the IPv4 address of the interface.
func (e ends) address() (netip.Addr, error) {
	for _, end := range e.Ends {
		if end.Interface == e.iface && end.Address.Is4() {
			return end.Address, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%s has no IPv4 address at %s, and the pod in the middle routes IPv4 only: give its network an ipam section", e.nameInFull(), e.iface)
}

// steerThrough makes two stations send to each other through a third, which has an interface to each of
// them. All three are made for the measurement, so nothing undoes it. The router also has a route back
// to the addresses from which engines send as many sources: without one it may drop the packets
// (rp_filter).
func steerThrough(ctx context.Context, from, to, in, out ends) error {
	var addresses [4]netip.Addr
	for i, e := range []ends{from, to, in, out} {
		a, err := e.address()
		if err != nil {
			return err
		}
		addresses[i] = a
	}
	f, t, near, far := addresses[0], addresses[1], addresses[2], addresses[3]
	whole := func(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
	for _, s := range []struct {
		at *Station
		do agent.Steering
	}{
		{in.Station, agent.Steering{Forward: []string{in.iface, out.iface}, Ways: []agent.Way{
			{To: whole(f), Interface: in.iface}, {To: whole(t), Interface: out.iface}, {To: engine.ManySources(), Gateway: f, Interface: in.iface},
		}}},
		{from.Station, agent.Steering{Ways: []agent.Way{{To: whole(t), Gateway: near, Interface: from.iface}}}},
		{to.Station, agent.Steering{Ways: []agent.Way{{To: whole(f), Gateway: far, Interface: to.iface}}}},
	} {
		if err := s.at.Agent.Steer(ctx, s.do); err != nil {
			return s.at.wrapError(err)
		}
	}
	return nil
}

// noteNetworks says that the two networks of an order in a cluster do not reach each other, or returns
// "" if they do, or if there is one network.
func (o Order) noteNetworks(paths []bench.Path) string {
	c := o.Cluster
	if c == nil || c.Via != "" || c.From.Network == c.To.Network && c.From.Namespace == c.To.Namespace {
		return ""
	}
	if slices.ContainsFunc(paths, func(p bench.Path) bool { return p.From.VF != nil && p.To.VF != nil }) {
		return ""
	}
	return fmt.Sprintf("a VF of network %s/%s and one of %s/%s do not reach each other: their PFs are to be on one segment, and the networks to share an AddressPool, so that no two pods have one address, or to have routes to each other",
		c.From.Namespace, c.From.Network, c.To.Namespace, c.To.Network)
}

// lenderOf returns the station that asks culvertd to lend rates to a station's VF. For a pod of a
// cluster it is an agent in the pod of culvertd on the same node, which is opened at the first call.
func (c *Session) lenderOf(ctx context.Context, s *Station) (*Station, error) {
	if !s.Cluster || !s.Pod || c.cluster == nil {
		return s.nearPF(), nil
	}
	node := s.Machine.Name
	if c.lenders[node] == nil {
		pipe, err := c.cluster.OpenCulvertd(ctx, node)
		if err != nil {
			return nil, err
		}
		own := &Session{}
		lender, err := own.Add(ctx, pipe, Site{Name: "culvertd on " + node, Cluster: true, Machine: bench.Machine{Name: node}})
		c.closers = append(c.closers, own.closers...)
		if err != nil {
			return nil, fmt.Errorf("an agent beside culvertd on %s: %w", node, err)
		}
		if c.lenders == nil {
			c.lenders = map[string]*Station{}
		}
		c.lenders[node] = lender
	}
	s.lender = c.lenders[node]
	return s.lender, nil
}

// ownerOfVF returns who has to have the station's VF in culvertd's ledger, if the station could name the
// VF of another: a guest's or a pod's.
func (s *Station) ownerOfVF() agent.Owner {
	switch {
	case s.Host != nil:
		return agent.Owner{Kind: vf.OwnerGuest, Name: s.Name}
	case s.lender != nil:
		return agent.Owner{Kind: vf.OwnerPod, Name: s.namespace + "/" + s.Name}
	}
	return agent.Owner{}
}
