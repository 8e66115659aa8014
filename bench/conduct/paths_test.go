package conduct

import (
	"math"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/agent"
	"github.com/culvert-net/culvert/bench/evidence"
)

var ip = netip.MustParseAddr

// pod returns the site of a pod with an overlay's interface and a VF, as Culvert's pods have.
func pod(name, machine, pf string, overlay, vf netip.Addr) Site {
	index := 1
	return Site{Name: name, Pod: true, Cluster: true, Machine: bench.Machine{Name: machine}, Ends: []bench.End{
		{Interface: "eth0", Address: overlay, MTU: 1450, Driver: "veth"},
		{Interface: "net1", Address: vf, MTU: 1500, Driver: "iavf", PF: pf, VF: &index},
		{Interface: "net2"}, // without an address
	}, Routes: map[netip.Addr]agent.Route{}}
}

func titles(paths []bench.Path) []string {
	var all []string
	for _, p := range paths {
		all = append(all, Title(p))
	}
	return all
}

func route(a, b *Site, x, y netip.Addr) {
	a.Routes[y], b.Routes[x] = agent.Route{Source: x}, agent.Route{Source: y}
}

func TestPaths(t *testing.T) {
	a := pod("a", "n1", "p0", ip("10.244.1.2"), ip("172.16.0.1"))
	b := pod("b", "n2", "p0", ip("10.244.2.2"), ip("172.16.0.2"))
	host := Site{Name: "host", Machine: bench.Machine{Name: "n1"}, Routes: map[netip.Addr]agent.Route{}, Ends: []bench.End{
		{Interface: "p0", Address: ip("172.16.0.254"), Driver: "i40e"}, {Interface: "eno1", Address: ip("192.0.2.1"), Driver: "e1000e"}, {Interface: "flannel.1", Address: ip("10.244.1.0"), Driver: "vxlan"}, {Interface: "p0.5", Address: ip("10.5.0.1"), Driver: "802.1Q VLAN Support", Uplink: "p0"}}}
	other := Site{Name: "host", Machine: bench.Machine{Name: "n2"}, Routes: map[netip.Addr]agent.Route{}, Ends: []bench.End{
		{Interface: "bond0", Address: ip("192.0.2.2"), Driver: "bonding"}, {Interface: "flannel.1", Address: ip("10.244.2.0"), Driver: "vxlan"}, {Interface: "p0.5", Address: ip("10.5.0.2"), Driver: "802.1Q VLAN Support", Uplink: "p0"}}}
	route(&a, &b, ip("10.244.1.2"), ip("10.244.2.2"))
	route(&a, &b, ip("172.16.0.1"), ip("172.16.0.2"))
	route(&a, &host, ip("172.16.0.1"), ip("172.16.0.254"))
	a.Routes[ip("192.0.2.1")] = agent.Route{Source: ip("10.244.1.2")} // there is no way back
	route(&host, &other, ip("192.0.2.1"), ip("192.0.2.2"))
	route(&host, &other, ip("10.244.1.0"), ip("10.244.2.0"))
	route(&host, &other, ip("10.5.0.1"), ip("10.5.0.2"))
	for _, c := range []struct {
		from, to Site
		want     []string
	}{
		{a, b, []string{"pod-pod, overlay, other node", "pod-pod, VF, other node"}},
		{a, host, []string{"pod-node, VF, same node"}},
		{host, other, []string{"node-node, bond, other node", "node-node, overlay, other node", "node-node, VLAN, other node"}},
		{b, other, nil},
	} {
		if diff := cmp.Diff(c.want, titles(Paths(c.from, c.to))); diff != "" {
			t.Errorf("%s to %s: -want +got:\n%s", c.from.Name, c.to.Name, diff)
		}
	}
	p := Paths(a, b)[1]
	if p.From.Machine != "n1" || p.From.Name != "a" || p.From.Interface != "net1" || p.To.Address != ip("172.16.0.2") {
		t.Errorf("%+v", p)
	}
}

// To a Service traffic goes over the cluster's default network, from pods that have a
// route to its address.
func TestPathsOfAService(t *testing.T) {
	a := pod("a", "n1", "p0", ip("10.244.1.2"), ip("172.16.0.1"))
	b := pod("b", "n2", "p0", ip("10.244.2.2"), ip("172.16.0.2"))
	b.Service = ip("10.96.0.7")
	host := Site{Name: "host", Cluster: true, Machine: bench.Machine{Name: "n1"}, Ends: []bench.End{{Interface: "eno1", Address: ip("192.0.2.1")}},
		Routes: map[netip.Addr]agent.Route{b.Service: {Source: ip("192.0.2.1")}}}
	route(&a, &b, ip("10.244.1.2"), ip("10.244.2.2"))
	route(&a, &b, ip("172.16.0.1"), ip("172.16.0.2"))
	route(&host, &b, ip("192.0.2.1"), ip("10.244.2.2"))
	if diff := cmp.Diff([]string{"pod-pod, overlay, other node", "pod-pod, VF, other node"}, titles(Paths(a, b))); diff != "" {
		t.Errorf("without a route to it: -want +got:\n%s", diff)
	}
	a.Routes[b.Service] = agent.Route{Source: ip("10.244.1.2")}
	got := Paths(a, b)
	if diff := cmp.Diff([]string{"pod-pod, overlay, other node", "pod-pod, service, other node", "pod-pod, VF, other node"}, titles(got)); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	if p := got[1]; p.Service != b.Service || p.Replaced != bench.InPackets || p.From.Interface != "eth0" || p.To.Address != ip("10.244.2.2") || got[0].Service.IsValid() {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff([]string{"node-pod, overlay, other node"}, titles(Paths(host, b))); diff != "" {
		t.Errorf("from a node: -want +got:\n%s", diff)
	}
}

// Traffic to a Service that the order names may go over VFs. If eBPF programs of a cgroup replace
// its address by a backend's, the path is known. Otherwise each path is tried.
func TestPathsOfANamedService(t *testing.T) {
	a := pod("a", "n1", "p0", ip("10.244.1.2"), ip("172.16.0.1"))
	b := pod("b", "n2", "p0", ip("10.244.2.2"), ip("172.16.0.2"))
	b.Service, b.Named = ip("10.96.0.7"), true
	route(&a, &b, ip("10.244.1.2"), ip("10.244.2.2"))
	route(&a, &b, ip("172.16.0.1"), ip("172.16.0.2"))
	route(&a, &b, ip("fd00::1"), ip("fd00::2"))
	a.Ends, b.Ends = append(a.Ends, bench.End{Interface: "net1", Address: ip("fd00::1"), PF: "p0"}), append(b.Ends, bench.End{Interface: "net1", Address: ip("fd00::2"), PF: "p0"})
	for _, c := range []struct {
		name  string
		route *agent.Route
		want  []string
	}{
		{"without a route", nil, nil},
		{"at the socket", &agent.Route{Source: ip("172.16.0.1"), Peer: ip("172.16.0.2")}, []string{"pod-pod, service, other node, at the socket, net1"}},
		{"to another backend", &agent.Route{Source: ip("172.16.0.1"), Peer: ip("172.16.0.3")}, nil},
		{"in packets", &agent.Route{Source: ip("10.244.1.2")}, []string{"pod-pod, service, other node, in packets, eth0", "pod-pod, service, other node, in packets, net1"}},
	} {
		delete(a.Routes, b.Service)
		if c.route != nil {
			a.Routes[b.Service] = *c.route
		}
		var got []string
		for _, p := range Paths(a, b) {
			if p.Service.IsValid() {
				got = append(got, Title(p)+", "+string(p.Replaced)+", "+p.To.Interface)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.name, diff)
		}
	}
	b.Named = false
	a.Routes[b.Service] = agent.Route{Source: ip("172.16.0.1"), Peer: ip("172.16.0.2")}
	for _, p := range Paths(a, b) {
		if p.Service.IsValid() {
			t.Errorf("a cluster's Service over %s", p.From.Interface)
		}
	}
	over := bench.Path{Ends: "pod-pod", Network: "service", Service: b.Service, From: bench.End{PF: "p0"}}
	if !Matches(over, []string{"VF"}) || Matches(over, []string{"overlay"}) || Matches(bench.Path{Network: "service", Service: b.Service}, []string{"VF"}) {
		t.Error("the word VF is not that of a Service over VFs")
	}
}

// A fingerprint has the interfaces that carry something, and not which VFs and veths a
// machine happens to have besides.
func TestMachines(t *testing.T) {
	index := 1
	node := &Station{Site: Site{Name: "host", Machine: bench.Machine{Name: "n1", Interfaces: []bench.Interface{{Name: "p0"}, {Name: "p0v3"}, {Name: "veth7"}, {Name: "eno1"}}}, Ends: []bench.End{
		{Interface: "p0"}, {Interface: "p0v3", PF: "p0", VF: &index}, {Interface: "veth7", Driver: "veth"}, {Interface: "eno1", Address: ip("192.0.2.1")}}}}
	a := &Station{Site: pod("a", "n1", "p0", ip("10.244.1.2"), ip("172.16.0.1"))}
	a.Machine.Interfaces = []bench.Interface{{Name: "eth0"}, {Name: "net1"}}
	names := func(arms ...bench.Arm) (all []string) {
		for _, m := range Machines([]*Station{node, a}, arms) {
			for _, i := range m.Interfaces {
				all = append(all, m.Name+" "+i.Name)
			}
		}
		return all
	}
	over := bench.Arm{Path: bench.Path{From: bench.End{Machine: "n2", Name: "a", Interface: "eth0"}, To: bench.End{Machine: "n1", Name: "a", Interface: "net1"}}}
	if diff := cmp.Diff([]string{"n1 p0", "n1 eno1", "n1 net1"}, names(over)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	over.Also = []bench.Path{{From: bench.End{Machine: "n1", Name: "a", Interface: "eth0"}}}
	if diff := cmp.Diff([]string{"n1 p0", "n1 eno1", "n1 eth0", "n1 net1"}, names(over)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	over = bench.Arm{Path: bench.Path{From: bench.End{Machine: "n1", Name: "a", Interface: "bond0", Uplink: "net1+net2"}}}
	if diff := cmp.Diff([]string{"n1 p0", "n1 eno1", "n1 net1"}, names(over)); diff != "" {
		t.Errorf("a bond's members: -want +got:\n%s", diff)
	}
	if len(node.Machine.Interfaces) != 4 {
		t.Error("the station has lost some")
	}
}

// P22: two VFs of one NIC are another path than two of different ones.
func TestPathsOnOneNode(t *testing.T) {
	for _, c := range []struct{ pf, want string }{{"p0", "pod-pod, VF, same PF"}, {"p1", "pod-pod, VF, other PF"}} {
		a := pod("a", "n1", "p0", ip("10.0.0.1"), ip("172.16.0.1"))
		b := pod("b", "n1", c.pf, ip("10.0.0.2"), ip("172.16.0.2"))
		route(&a, &b, ip("172.16.0.1"), ip("172.16.0.2"))
		if diff := cmp.Diff([]string{c.want}, titles(Paths(a, b))); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		a.Cluster, b.Cluster = false, false
		route(&a, &b, ip("10.0.0.1"), ip("10.0.0.2"))
		if got := Paths(a, b)[0].Network; got != "veth" {
			t.Errorf("two containers of a host: %s", got)
		}
	}
}

func TestMatches(t *testing.T) {
	p := bench.Path{Ends: "pod-pod", Network: "VF", Place: "other node"}
	for filter, want := range map[string]bool{"": false, "vf": true, "overlay": false, "pod-pod,VF": true, "pod-pod, other node": true, "VF,same PF": false} {
		if got := Matches(p, []string{filter}); got != want {
			t.Errorf("%q: %v", filter, got)
		}
	}
	if !Matches(p, nil) || !Matches(p, []string{"overlay", "VF"}) {
		t.Error("a path that is asked for does not match")
	}
}

func TestName(t *testing.T) {
	vf := func(place, to string) bench.Arm {
		return bench.Arm{Path: bench.Path{Ends: "pod-pod", Network: "VF", Place: place, From: bench.End{Interface: "net1"}, To: bench.End{Interface: to, Address: ip("::1")}}}
	}
	overlay := bench.Arm{Path: bench.Path{Network: "overlay", Place: "other node"}}
	sized := vf("same PF", "net1")
	sized.Name = "64 B"
	elsewhere := vf("same PF", "net1")
	elsewhere.Path.Ends = "node-pod"
	for _, c := range []struct {
		arms []bench.Arm
		want []string
	}{
		{[]bench.Arm{overlay, vf("same PF", "net1")}, []string{"overlay", "VF"}},
		{[]bench.Arm{sized, vf("same PF", "net1")}, []string{"VF 64 B", "VF"}},
		{[]bench.Arm{vf("same PF", "net1"), vf("other PF", "net1")}, []string{"VF, same PF", "VF, other PF"}},
		{[]bench.Arm{vf("same PF", "net1"), elsewhere}, []string{"pod-pod, VF, same PF", "node-pod, VF, same PF"}},
		{[]bench.Arm{vf("same PF", "net1"), vf("same PF", "net2")}, []string{"VF net1-net1", "VF net1-net2"}},
	} {
		NameArms(c.arms)
		var got []string
		for _, a := range c.arms {
			got = append(got, a.Name)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// The slower end decides, and the smaller MTU. An end whose speed is not known does not count.
func TestCeiling(t *testing.T) {
	machine := func(mbps int) bench.Machine {
		return bench.Machine{Interfaces: []bench.Interface{{Name: "other", SpeedMbps: 1}, {Name: "net1", SpeedMbps: mbps}}}
	}
	for _, c := range []struct {
		speed, other, mtu int
		address           string
		gbps              float64
	}{
		{10000, 10000, 1500, "10.0.0.1", 9.414824},
		{100000, 10000, 9000, "10.0.0.1", 9.414824},
		{10000, 100000, 9000, "10.0.0.1", 9.414824},
		{0, 10000, 9000, "10.0.0.1", 9.414824},
		{10000, 10000, 1500, "fd00::1", 9.284785},
		{0, 0, 1500, "10.0.0.1", 0},
	} {
		a := bench.Arm{Workload: bench.Workload{Kind: bench.Stream}, Path: bench.Path{
			From: bench.End{Interface: "net1", MTU: c.mtu, Address: ip(c.address)}, To: bench.End{Interface: "net1", MTU: 1500},
		}}
		a.Path.From.Machine, a.Path.To.Machine = "one", "other"
		Ceiling(&a, func(e bench.End) bench.Machine {
			return map[string]bench.Machine{"one": machine(c.speed), "other": machine(c.other)}[e.Machine]
		})
		if math.Abs(a.CeilingGbps-c.gbps) > 1e-4 {
			t.Errorf("%+v: %g Gb/s", c, a.CeilingGbps)
		}
	}
}

// Segments without timestamps carry more payload. One end that wants no timestamps is enough.
func TestCeilingWithoutTimestamps(t *testing.T) {
	a := bench.Arm{Workload: bench.Workload{Kind: bench.Stream}, Path: bench.Path{
		From: bench.End{Machine: "one", Interface: "net1", MTU: 1500, Address: ip("10.0.0.1")}, To: bench.End{Machine: "other", Interface: "net1", MTU: 1500},
	}}
	for _, off := range []string{"", "one", "other"} {
		want := 10 * 1448.0 / 1538
		if off != "" {
			want = 10 * 1460.0 / 1538
		}
		Ceiling(&a, func(e bench.End) bench.Machine {
			m := bench.Machine{Interfaces: []bench.Interface{{Name: "net1", SpeedMbps: 10000}}, Sysctls: []bench.Setting{{Name: "net.ipv4.tcp_timestamps", Value: "1"}}}
			if e.Machine == off {
				m.Sysctls[0].Value = "0"
			}
			return m
		})
		if math.Abs(a.CeilingGbps-want) > 1e-9 {
			t.Errorf("none at %q: %g Gb/s, want %g", off, a.CeilingGbps, want)
		}
	}
}

// A path that no wire carries has no ceiling: R2's 16.7 Gb/s between two VFs of one PF would be 177 % of it. An overlay
// has that of its uplink, with its headers; one flow over a bond has one member's, and a VLAN's tag is on the wire.
func TestCeilingOfWhatCarries(t *testing.T) {
	machine := func(bench.End) bench.Machine {
		return bench.Machine{Interfaces: []bench.Interface{{Name: "eth0", MTU: 1450}, {Name: "enp1s0", SpeedMbps: 10000, MTU: 1500}, {Name: "enp2s0", SpeedMbps: 25000, MTU: 1500}, {Name: "bond0", SpeedMbps: 35000, MTU: 1500}, {Name: "net1", SpeedMbps: 10000, MTU: 1500}}}
	}
	end := func(name string, mtu int, uplink string) bench.End {
		return bench.End{Machine: "m", Interface: name, MTU: mtu, Uplink: uplink, Address: ip("10.0.0.1")}
	}
	vxlan, flat, bond, vf := end("eth0", 1450, "enp1s0"), end("eth0", 1500, "enp1s0"), end("bond0", 1500, "enp1s0+enp2s0"), end("net1", 1500, "")
	for name, c := range map[string]struct {
		place   string
		end     bench.End
		streams int
		vlans   int
		gbps    float64
	}{
		"same PF":          {"same PF", vf, 1, 0, 0},
		"same node":        {"same node", vxlan, 1, 0, 0},
		"other PF":         {"other PF", vf, 1, 0, 10 * 1448.0 / 1538},
		"VXLAN":            {"other node", vxlan, 1, 0, 10 * 1398.0 / 1538},
		"no encapsulation": {"other node", flat, 1, 0, 10 * 1448.0 / 1538},
		"VLAN":             {"other node", vf, 1, 1, 10 * 1448.0 / 1542},
		"bond, one flow":   {"other node", bond, 1, 0, 10 * 1448.0 / 1538},
		"bond, 8 flows":    {"other node", bond, 8, 0, 35 * 1448.0 / 1538},
		"unknown uplink":   {"other node", end("eth0", 1450, "gone"), 1, 0, 0},
	} {
		a := bench.Arm{Workload: bench.Workload{Kind: bench.Stream, Streams: c.streams}, Path: bench.Path{Place: c.place, From: c.end, To: c.end}, Bounds: bench.Bounds{VLANs: c.vlans}}
		if Ceiling(&a, machine); math.Abs(a.CeilingGbps-c.gbps) > 1e-9 {
			t.Errorf("%s: %g Gb/s, want %g", name, a.CeilingGbps, c.gbps)
		}
	}
	over := end("enp1s0.5", 1500, "enp1s0")
	a := bench.Arm{Workload: bench.Workload{Kind: bench.Stream, Streams: 1}, Path: bench.Path{Network: "VLAN", Place: "other node", From: over, To: over}}
	if Ceiling(&a, machine); math.Abs(a.CeilingGbps-10*1448.0/1542) > 1e-9 {
		t.Errorf("a VLAN's interface on a NIC: %g Gb/s", a.CeilingGbps)
	}
	hidden := end("net1", 1500, "")
	hidden.Driver = evidence.VLANDriver
	a = bench.Arm{Workload: bench.Workload{Kind: bench.Stream, Streams: 1}, Path: bench.Path{Network: "VLAN", Place: "other node", From: hidden, To: hidden}}
	if Ceiling(&a, machine); math.Abs(a.CeilingGbps-10*1448.0/1542) > 1e-9 {
		t.Errorf("a VLAN's interface whose NIC is not seen: %g Gb/s", a.CeilingGbps)
	}
	a.Also = []bench.Path{a.Path}
	if Ceiling(&a, machine); a.CeilingGbps != 0 {
		t.Errorf("two such VLANs may share a NIC: %g Gb/s, want no ceiling", a.CeilingGbps)
	}
}

// VFs of one PF share its wire, and two PFs have two.
func TestCeilingOfSeveral(t *testing.T) {
	end := func(name, pf string) bench.End {
		return bench.End{Machine: "m", Name: name, Interface: "net1", PF: pf, MTU: 1500, Address: ip("10.0.0.1")}
	}
	machine := func(bench.End) bench.Machine {
		return bench.Machine{Interfaces: []bench.Interface{{Name: "net1", SpeedMbps: 10000}}}
	}
	for name, c := range map[string]struct {
		from, to []bench.End
		wires    float64
	}{
		"one PF to one":       {[]bench.End{end("a", "p0"), end("b", "p0")}, []bench.End{end("r", "p1"), end("r", "p1")}, 1},
		"two PFs to one":      {[]bench.End{end("a", "p0"), end("b", "p1")}, []bench.End{end("r", "p2"), end("r", "p2")}, 1},
		"two PFs to two":      {[]bench.End{end("a", "p0"), end("b", "p1")}, []bench.End{end("r", "p2"), end("s", "p3")}, 2},
		"two pods' veths":     {[]bench.End{end("a", ""), end("b", "")}, []bench.End{end("r", ""), end("s", "")}, 2},
		"two pods to one end": {[]bench.End{end("a", ""), end("b", "")}, []bench.End{end("r", ""), end("r", "")}, 1},
	} {
		a := bench.Arm{Workload: bench.Workload{Kind: bench.Stream}, Path: bench.Path{From: c.from[0], To: c.to[0]}, Also: []bench.Path{{From: c.from[1], To: c.to[1]}}}
		Ceiling(&a, machine)
		if want := c.wires * 9.414824; math.Abs(a.CeilingGbps-want) > 1e-4 {
			t.Errorf("%s: %g Gb/s, want %g", name, a.CeilingGbps, want)
		}
	}
}

// A wire counts once, by whatever names its NIC is known: a VF in a container names its PF by the PCI
// address, and a bond's uplink has the bond's own members.
func TestOneWireCountsOnce(t *testing.T) {
	nics := []bench.Interface{
		{Name: "eth0", MTU: 1450}, {Name: "net1", PCI: "0000:01:10.0", SpeedMbps: 10000},
		{Name: "eth0", PCI: "0000:01:00.0", SpeedMbps: 10000, MTU: 1500}, {Name: "eth1", PCI: "0000:01:00.1", SpeedMbps: 10000, MTU: 1500},
		{Name: "bond0", Driver: "bonding", SpeedMbps: 20000, MTU: 1500},
	}
	machine := func(bench.End) bench.Machine { return bench.Machine{Interfaces: nics} }
	end := func(name, dev, pf, uplink string) bench.End {
		return bench.End{Machine: "m", Name: name, Interface: dev, PF: pf, Uplink: uplink, MTU: 1500, Address: ip("10.0.0.1")}
	}
	for name, c := range map[string]struct {
		ends  []bench.End
		wires float64
	}{
		"a VF and its PF":           {[]bench.End{end("a", "net1", "eth0", ""), end("host", "eth0", "", "eth0")}, 1},
		"by name and PCI address":   {[]bench.End{end("a", "net1", "0000:01:00.0", ""), end("b", "net1", "eth0", "")}, 1},
		"a VF and a bond of its PF": {[]bench.End{end("a", "net1", "eth0", ""), end("host", "bond0", "", "eth0+eth1")}, 2},
		"an overlay over a bond":    {[]bench.End{end("host", "flannel.1", "", "bond0+eth0+eth1"), end("host", "flannel.1", "", "bond0+eth0+eth1")}, 2},
		"two PFs":                   {[]bench.End{end("a", "net1", "eth0", ""), end("b", "net1", "eth1", "")}, 2},
	} {
		a := bench.Arm{Workload: bench.Workload{Kind: bench.Stream}, Path: bench.Path{From: c.ends[0], To: bench.End{Machine: "far", Interface: "x", MTU: 1500}}, Also: []bench.Path{{From: c.ends[1], To: bench.End{Machine: "far", Interface: "x", MTU: 1500}}}}
		Ceiling(&a, func(e bench.End) bench.Machine {
			if e.Machine == "far" {
				return bench.Machine{}
			}
			return machine(e)
		})
		if want := c.wires * 10 * 1448 / 1538; math.Abs(a.CeilingGbps-want) > 1e-4 {
			t.Errorf("%s: %g Gb/s, want %g", name, a.CeilingGbps, want)
		}
	}
}

// Two networks that share no pool may give both ends one address. Then each sends to itself, and there is
// no path.
func TestEndsWithOneAddress(t *testing.T) {
	a, b := pod("a", "n1", "p0", ip("10.244.1.5"), ip("10.97.0.2")), pod("b", "n1", "p1", ip("10.244.1.6"), ip("10.97.0.2"))
	route(&a, &b, ip("10.97.0.2"), ip("10.97.0.2"))
	if paths := Paths(a, b); len(paths) > 0 {
		t.Errorf("%+v", paths)
	}
}

// Pods on an overlay have the ceiling of their node's wire with the overlay's headers, and two pods of
// a node have one wire. A pod's own eth0 is not the node's.
func TestCeilingOfPods(t *testing.T) {
	station := func(node, name string, pod bool, ends ...bench.End) *Station {
		s := &Station{Site: Site{Name: name, Pod: pod, Cluster: true, Ends: ends}}
		s.Machine.Name = node
		for _, e := range ends {
			s.Machine.Interfaces = append(s.Machine.Interfaces, bench.Interface{Name: e.Interface, MTU: e.MTU, Driver: e.Driver})
		}
		return s
	}
	pod := func(node, name, address string) *Station {
		return station(node, name, true, bench.End{Interface: "eth0", MTU: 1450, Driver: "veth", Address: ip(address)})
	}
	host := func(node, tunnel, address string) *Station {
		s := station(node, "host "+node, false, bench.End{Interface: "eth0", MTU: 1500, Driver: "virtio_net", Address: ip(address)},
			bench.End{Interface: "flannel.1", MTU: 1450, Driver: "vxlan", Uplink: "eth0", Address: ip(tunnel)})
		s.Machine.Interfaces[0].PCI, s.Machine.Interfaces[0].SpeedMbps, s.Machine.Interfaces[0].QdiscMbps = "0000:00:03.0", 10000, 200
		return s
	}
	m := Measurement{Exchange: Exchange{Stations: []*Station{
		pod("n1", "a", "10.244.1.5"), pod("n1", "b", "10.244.1.6"), pod("n2", "r", "10.244.2.5"), host("n1", "10.244.1.0", "192.0.2.1"), host("n2", "10.244.2.0", "192.0.2.2"),
	}}}
	m.Stations[3].Routes = map[netip.Addr]agent.Route{ip("10.244.2.5"): {Source: ip("10.244.1.0")}}
	m.Stations[4].Routes = map[netip.Addr]agent.Route{ip("10.244.1.5"): {Source: ip("10.244.2.0")}, ip("10.244.1.6"): {Source: ip("10.244.2.0")}}
	path := func(from *Station) bench.Path {
		return bench.Path{Network: "overlay", Place: "other node", From: from.nameEnd(from.Ends[0]), To: m.Stations[2].nameEnd(m.Stations[2].Ends[0])}
	}
	stream := bench.Workload{Kind: bench.Stream}
	m.Arms = []bench.Arm{
		{Workload: stream, Path: path(m.Stations[0])}, {Workload: stream, Path: path(m.Stations[0]), Also: []bench.Path{path(m.Stations[1])}},
	}
	// Without a tunnel the node sends by its NIC.
	for source, want := range map[string]string{"10.244.1.0": "vxlan", "192.0.2.1": "virtio_net", "192.0.2.9": ""} {
		m.Stations[3].Routes[ip("10.244.2.5")] = agent.Route{Source: ip(source)}
		if got := m.overlayDriver(m.Arms[0].Path); got != want {
			t.Errorf("an overlay that the node sends from %s: %q, want %q", source, got, want)
		}
	}
	if got := m.overlayDriver(bench.Path{From: bench.End{Driver: "geneve"}}); got != "geneve" {
		t.Errorf("an end that is a tunnel: %q", got)
	}
	m.Stations[3].Routes[ip("10.244.2.5")] = agent.Route{Source: ip("10.244.1.0")}
	m.setCeilings(upTo(len(m.Arms)))
	for _, a := range m.Arms {
		if want := 10 * 1398.0 / 1538; math.Abs(a.CeilingGbps-want) > 1e-4 || a.QdiscMbps != 200 || a.Path.From.Interface != "eth0" || a.Path.From.Name != "a" {
			t.Errorf("%g Gb/s, want %g; %+v", a.CeilingGbps, want, a.Bounds)
		}
	}
}

// The rate that local queueing disciplines pass bounds a path: that of fq for each flow.
func TestQdiscLimit(t *testing.T) {
	s := &Station{}
	s.Machine.Interfaces = []bench.Interface{{Name: "eth0", FlowMbps: 50}, {Name: "vlan5", QdiscMbps: 1000}}
	m := Measurement{Exchange: Exchange{Stations: []*Station{s}}}
	for name, c := range map[string]struct {
		end     bench.End
		streams int
		want    float64
	}{
		"one flow":         {bench.End{Interface: "eth0"}, 1, 50},
		"four flows":       {bench.End{Interface: "eth0"}, 4, 200},
		"over the uplink":  {bench.End{Interface: "vlan5", Uplink: "eth0"}, 4, 200},
		"less by itself":   {bench.End{Interface: "vlan5", Uplink: "eth0"}, 64, 1000},
		"members of bonds": {bench.End{Interface: "bond0", Uplink: "eth0+eth1"}, 1, 0},
	} {
		if got := m.qdiscLimit(&bench.Arm{Workload: bench.Workload{Streams: c.streams}}, c.end); got != c.want {
			t.Errorf("%s: %g Mb/s, want %g", name, got, c.want)
		}
	}
}
