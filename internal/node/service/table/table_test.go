package table

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/network/service"
)

var (
	net1 = service.Network{Namespace: "default", Name: "net1"}
	net2 = service.Network{Namespace: "default", Name: "net2"}
	here = Node{Name: "worker01", Zone: "a"}
)

// ready is an endpoint that takes connections.
func ready(addr string) Endpoint {
	return Endpoint{Addr: netip.MustParseAddr(addr), Ready: true, Serving: true}
}

func terminating(addr string) Endpoint {
	return Endpoint{Addr: netip.MustParseAddr(addr), Serving: true, Terminating: true}
}

func with(e Endpoint, change func(*Endpoint)) Endpoint {
	change(&e)
	return e
}

// web is a Service of one TCP port, 80, whose pods listen at 8080.
func web(change ...func(*Service)) *Service {
	s := &Service{Name: "default/web", ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, Ports: []Port{{"http", 80, balance.TCP}}}
	for _, c := range change {
		c(s)
	}
	return s
}

func slice(network service.Network, endpoints ...Endpoint) *Slice {
	return &Slice{Name: "default/web-" + network.Name, Service: "default/web", Network: network, Ports: []Port{{"http", 8080, balance.TCP}}, Endpoints: endpoints}
}

func client(id string, networks ...service.Network) Client {
	return Client{ID: id, Netns: "/run/netns/" + id, Networks: networks}
}

// show prints the view of a client: for each Frontend its backends, or "refused".
func show(t balance.Table, id string) []string {
	out := []string{}
	for _, p := range t.Pods {
		if p.ID != id {
			continue
		}
		all := maps.Clone(t.Views[balance.Foreign])
		maps.Copy(all, t.Views[p.View])
		for f, r := range all {
			line := f.String() + " -> refused"
			if len(r.Backends) > 0 {
				line = strings.TrimSuffix(f.String()+" -> "+fmt.Sprint(r.Backends)[1:], "]")
			}
			if r.Affinity > 0 {
				line += fmt.Sprintf(" (%v)", r.Affinity)
			}
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return out
}

func TestMake(t *testing.T) {
	v6 := func(s *Service) { s.ClusterIPs = append(s.ClusterIPs, netip.MustParseAddr("fd96::1")) }
	local := func(s *Service) { s.Local = true }
	onNode := func(e *Endpoint) { e.Here = true }
	zone := func(names ...string) func(*Endpoint) { return func(e *Endpoint) { e.Zones = names } }
	forNode := func(names ...string) func(*Endpoint) { return func(e *Endpoint) { e.Nodes = names } }
	a, b := "172.16.91.1", "172.16.91.2"
	for name, test := range map[string]struct {
		service *Service
		slices  []*Slice
		want    string
	}{
		"ready":                     {web(), []*Slice{slice(net1, ready(b), ready(a))}, "10.96.0.1:80/TCP -> 172.16.91.1:8080 172.16.91.2:8080"},
		"not ready":                 {web(), []*Slice{slice(net1, ready(a), Endpoint{Addr: netip.MustParseAddr(b)})}, "10.96.0.1:80/TCP -> 172.16.91.1:8080"},
		"terminating beside ready":  {web(), []*Slice{slice(net1, ready(a), terminating(b))}, "10.96.0.1:80/TCP -> 172.16.91.1:8080"},
		"terminating alone":         {web(), []*Slice{slice(net1, terminating(b))}, "10.96.0.1:80/TCP -> 172.16.91.2:8080"},
		"terminating and not ready": {web(), []*Slice{slice(net1, with(terminating(b), func(e *Endpoint) { e.Serving = false }))}, "10.96.0.1:80/TCP -> refused"},
		"no endpoints":              {web(), []*Slice{slice(net1)}, "10.96.0.1:80/TCP -> refused"},
		"no slices":                 {web(), nil, ""},
		"in two slices":             {web(), []*Slice{slice(net1, ready(a)), slice(net1, ready(a), ready(b))}, "10.96.0.1:80/TCP -> 172.16.91.1:8080 172.16.91.2:8080"},
		"dual stack":                {web(v6), []*Slice{slice(net1, ready(a)), slice(net1, ready("fd00::1"))}, "10.96.0.1:80/TCP -> 172.16.91.1:8080; [fd96::1]:80/TCP -> [fd00::1]:8080"},
		"one family has endpoints":  {web(v6), []*Slice{slice(net1, ready(a))}, "10.96.0.1:80/TCP -> 172.16.91.1:8080; [fd96::1]:80/TCP -> refused"},
		"affinity":                  {web(func(s *Service) { s.Affinity = time.Hour }), []*Slice{slice(net1, ready(a))}, "10.96.0.1:80/TCP -> 172.16.91.1:8080 (1h0m0s)"},
		"local":                     {web(local), []*Slice{slice(net1, ready(a), with(ready(b), onNode))}, "10.96.0.1:80/TCP -> 172.16.91.2:8080"},
		"local, none here":          {web(local), []*Slice{slice(net1, ready(a))}, "10.96.0.1:80/TCP -> refused"},
		"local, terminating here":   {web(local), []*Slice{slice(net1, ready(a), with(terminating(b), onNode))}, "10.96.0.1:80/TCP -> 172.16.91.2:8080"},
		"another network":           {web(), []*Slice{slice(net2, ready(a))}, "10.96.0.1:80/TCP -> refused"},
		"another network, fallback": {web(func(s *Service) { s.Fallback = true }), []*Slice{slice(net2, ready(a))}, ""},
		"on its way to our network": {web(), []*Slice{slice(net1, ready(a)), slice(net2, ready(b))}, "10.96.0.1:80/TCP -> 172.16.91.1:8080"},
		"zone":                      {web(), []*Slice{slice(net1, with(ready(a), zone("a")), with(ready(b), zone("b", "c")))}, "10.96.0.1:80/TCP -> 172.16.91.1:8080"},
		"zone of some only":         {web(), []*Slice{slice(net1, with(ready(a), zone("a")), ready(b))}, "10.96.0.1:80/TCP -> 172.16.91.1:8080 172.16.91.2:8080"},
		"zone of none":              {web(), []*Slice{slice(net1, with(ready(a), zone("b")), with(ready(b), zone("c")))}, "10.96.0.1:80/TCP -> 172.16.91.1:8080 172.16.91.2:8080"},
		"node before zone":          {web(), []*Slice{slice(net1, with(with(ready(a), zone("a")), forNode("worker02")), with(with(ready(b), zone("a")), forNode("worker01")))}, "10.96.0.1:80/TCP -> 172.16.91.2:8080"},
		"another port's name":       {web(func(s *Service) { s.Ports[0].Name = "other" }), []*Slice{slice(net1, ready(a))}, "10.96.0.1:80/TCP -> refused"},
		"another protocol":          {web(func(s *Service) { s.Ports[0].Protocol = balance.SCTP }), []*Slice{slice(net1, ready(a))}, "10.96.0.1:80/SCTP -> refused"},
		"slice of another Service":  {web(), []*Slice{with2(slice(net1, ready(a)), "default/other")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			table := (&Maker{}).Make(Input{Node: here, Services: []*Service{test.service}, Slices: test.slices, Clients: []Client{client("pod", net1)}})
			if got := strings.Join(show(table, "pod"), "; "); got != test.want {
				t.Errorf("the pod sees\n%s, want\n%s", got, test.want)
			}
		})
	}
}

func with2(s *Slice, of string) *Slice {
	s.Service = of
	return s
}

// TestI9ForeignServices: pods see the backends of the networks that they are attached to and no
// others, and pods of the same networks share a view.
func TestI9ForeignServices(t *testing.T) {
	other := &Service{Name: "tenant/db", ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.2")}, Ports: []Port{{"http", 80, balance.TCP}}}
	in := Input{
		Node: here, Services: []*Service{web(), other},
		Slices:  []*Slice{slice(net1, ready("172.16.91.1")), with2(slice(net2, ready("10.0.0.1")), "tenant/db")},
		Clients: []Client{client("one", net1), client("two", net2), client("both", net2, net1), client("both-too", net1, net2, net1), client("none")},
	}
	got := (&Maker{}).Make(in)
	for id, want := range map[string][]string{
		"one":  {"10.96.0.1:80/TCP -> 172.16.91.1:8080", "10.96.0.2:80/TCP -> refused"},
		"two":  {"10.96.0.1:80/TCP -> refused", "10.96.0.2:80/TCP -> 10.0.0.1:8080"},
		"both": {"10.96.0.1:80/TCP -> 172.16.91.1:8080", "10.96.0.2:80/TCP -> 10.0.0.1:8080"},
		"none": {"10.96.0.1:80/TCP -> refused", "10.96.0.2:80/TCP -> refused"},
	} {
		if diff := cmp.Diff(want, show(got, id)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", id, diff)
		}
	}
	if got.Pods[2].View != got.Pods[3].View || len(got.Views) != 5 {
		t.Errorf("%d views, want one for each set of networks and the foreign one: %v", len(got.Views), got.Pods)
	}
	f := balance.Frontend{Addr: netip.MustParseAddr("10.96.0.1"), Port: 80, Protocol: balance.TCP}
	if got.Views[got.Pods[0].View][f] != got.Views[got.Pods[2].View][f] {
		t.Error("two views have a rule each for one Frontend")
	}
	if len((&Maker{}).Make(Input{Services: in.Services, Slices: in.Slices}).Views) != 0 {
		t.Error("a node without pods has views")
	}
}

// portsOf is a Service of a namespace with a number of ports, and its slice over net1 with as many
// endpoints.
func portsOf(name string, ports, endpoints int) (*Service, *Slice) {
	s := &Service{Name: name, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}}
	e := &Slice{Name: name + "-1", Service: name, Network: net1}
	for i := range ports {
		p := Port{fmt.Sprint("p", i), uint16(i + 1), balance.TCP}
		s.Ports, e.Ports = append(s.Ports, p), append(e.Ports, p)
	}
	for i := range endpoints {
		e.Endpoints = append(e.Endpoints, Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), Ready: true, Serving: true})
	}
	return s, e
}

// TestI9RoomIsShared: Services of one namespace take no room from those of others. A namespace
// within its share keeps all Services. A namespace beyond it loses its large ones, always the same,
// and the table fits its limit.
func TestI9RoomIsShared(t *testing.T) {
	sizes := []struct {
		name             string
		ports, endpoints int
	}{
		{"greedy/a", 8, 4}, {"greedy/b", 8, 4}, {"greedy/c", 8, 4}, {"greedy/huge", 20_000, 1000}, {"greedy/d", 7, 4},
		{"many/endpoints", 1, 90}, {"many/few", 1, 2}, {"small/a", 2, 3}, {"small/b", 3, 1},
	}
	makers := map[string]*Maker{
		"rules of two views": {Limit: balance.Limit{Rules: 60, Backends: 200}},
		"rules of a pod":     {Limit: balance.Limit{Rules: 30, Backends: 200, PerPod: true}},
	}
	for name, m := range makers {
		for turn := range sizes {
			in := Input{Node: here, Clients: []Client{client("pod", net1), client("other", net2)}}
			for i := range sizes {
				z := sizes[(i+turn)%len(sizes)]
				s, e := portsOf(z.name, z.ports, z.endpoints)
				s.ClusterIPs = []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, byte((i + turn) % len(sizes))})}
				in.Services, in.Slices = append(in.Services, s), append(in.Slices, e)
			}
			got := m.Make(in)
			// A third of the rules is ten for each: small has five of them, and many two.
			if diff := cmp.Diff([]string{"greedy/c", "greedy/huge"}, m.Lost()); diff != "" {
				t.Errorf("%s: lost are -want +got:\n%s", name, diff)
			}
			rules, backends := 0, 0
			for _, v := range got.Views {
				rules += len(v)
				for _, r := range v {
					backends += len(r.Backends)
				}
			}
			if len(show(got, "pod")) != 30 || rules != 60 || backends > 200 {
				t.Errorf("%s: %d rules with %d backends, a pod sees %d", name, rules, backends, len(show(got, "pod")))
			}
			in.Services = slices.DeleteFunc(in.Services, func(s *Service) bool { return s.Name == "greedy/huge" || s.Name == "greedy/c" })
			if m.Make(in); len(m.Lost()) != 0 {
				t.Errorf("%s: with fewer Services lost are %v", name, m.Lost())
			}
		}
	}
}

// TestI9GreedyOnesShareTheRest: two namespaces that need more than there is keep equally many
// Services each, and the first by name among equal ones.
func TestI9GreedyOnesShareTheRest(t *testing.T) {
	var all []need
	for i := range 100 {
		for _, namespace := range []string{"a", "b"} {
			all = append(all, need{fmt.Sprintf("%s/%02d", namespace, i), balance.Limit{Rules: 2, Backends: 1}})
		}
	}
	all = append(all, need{"c/web", balance.Limit{Rules: 20, Backends: 1}})
	lost := chooseLost(all, balance.Limit{Rules: 100, Backends: 1000})
	for _, n := range all {
		if want := n.service != "c/web" && n.service[2:] >= "20"; lost[n.service] != want {
			t.Errorf("%s is lost: %t", n.service, lost[n.service])
		}
	}
}

// TestI9ShareIsKept: a namespace that needs at most its equal share loses no Service, whatever
// others need, and the Services that stay fit the limit.
func TestI9ShareIsKept(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		limit := balance.Limit{Rules: rapid.IntRange(1, 50).Draw(r, "rules"), Backends: rapid.IntRange(1, 50).Draw(r, "backends")}
		var all []need
		sums := map[string]balance.Limit{}
		for i := range rapid.IntRange(0, 20).Draw(r, "count") {
			namespace := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(r, "namespace")
			n := need{fmt.Sprint(namespace, "/", i), balance.Limit{Rules: rapid.IntRange(0, 20).Draw(r, "of it"), Backends: rapid.IntRange(0, 20).Draw(r, "of it")}}
			all, sums[namespace] = append(all, n), sums[namespace].Plus(n.Limit)
		}
		lost := chooseLost(all, limit)
		left := limit
		for _, n := range all {
			if !lost[n.service] {
				left = left.Minus(n.Limit)
				continue
			}
			sum := sums[n.service[:1]]
			if sum.Rules <= limit.Rules/len(sums) && sum.Backends <= limit.Backends/len(sums) {
				r.Fatalf("%s is lost, and its namespace needs only %+v", n.service, sum)
			}
		}
		if left.Rules < 0 || left.Backends < 0 {
			r.Fatalf("%+v too much", left)
		}
	})
}

// TestRenamedService: a Service that gets another name is a new one with slices of its own, and may
// have the former's address. The former's slices, which the garbage collector deletes later, have no
// part in it.
func TestRenamedService(t *testing.T) {
	var m Maker
	in := Input{Node: here, Services: []*Service{web()}, Slices: []*Slice{slice(net1, ready("172.16.91.1"))}, Clients: []Client{client("pod", net1)}}
	m.Make(in)
	renamed := web(func(s *Service) { s.Name = "default/renamed" })
	in.Services = []*Service{renamed}
	if got := show(m.Make(in), "pod"); len(got) > 0 {
		t.Errorf("before its slices are there the pod sees %q; its address is kube-proxy's", got)
	}
	in.Slices = append(in.Slices, with2(slice(net1, ready("172.16.91.2")), "default/renamed"))
	if diff := cmp.Diff([]string{"10.96.0.1:80/TCP -> 172.16.91.2:8080"}, show(m.Make(in), "pod")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	in.Slices = in.Slices[1:]
	if got := show(m.Make(in), "pod"); len(got) != 1 {
		t.Errorf("after the former's slices are gone the pod sees %q", got)
	}
}

// TestManyEndpoints: all of 2,000 endpoints in slices of 100 are backends, except an endpoint that
// is not ready.
func TestManyEndpoints(t *testing.T) {
	var m Maker
	in := Input{Node: here, Services: []*Service{web()}, Clients: []Client{client("pod", net1)}}
	for i := range 20 {
		s := slice(net1)
		s.Name = fmt.Sprint("default/web-", i)
		for j := range 100 {
			s.Endpoints = append(s.Endpoints, Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, byte(i), byte(j)}), Ready: true, Serving: true})
		}
		in.Slices = append(in.Slices, s)
	}
	f := balance.Frontend{Addr: netip.MustParseAddr("10.96.0.1"), Port: 80, Protocol: balance.TCP}
	count := func() int { made := m.Make(in); return len(made.Views[made.Pods[0].View][f].Backends) }
	if n := count(); n != 2000 {
		t.Errorf("%d backends, want 2000", n)
	}
	changed := *in.Slices[7]
	changed.Endpoints = slices.Clone(changed.Endpoints)
	changed.Endpoints[42].Ready = false
	in.Slices[7] = &changed
	if n := count(); n != 1999 {
		t.Errorf("%d backends with one that is not ready, want 1999", n)
	}
}

// BenchmarkMake makes the table of 1,000 Services with 10 endpoints each, one of them changed.
func BenchmarkMake(b *testing.B) {
	in := Input{Node: here, Clients: []Client{client("pod", net1)}}
	for i := range 1000 {
		name := fmt.Sprintf("default/web%d", i)
		s := web(func(s *Service) {
			s.Name, s.ClusterIPs = name, []netip.Addr{netip.AddrFrom4([4]byte{10, 97, byte(i >> 8), byte(i)})}
		})
		at := with2(slice(net1), name)
		for j := range 10 {
			at.Endpoints = append(at.Endpoints, Endpoint{Addr: netip.AddrFrom4([4]byte{172, 16, byte(i), byte(j)}), Ready: true, Serving: true})
		}
		in.Services, in.Slices = append(in.Services, s), append(in.Slices, at)
	}
	var m Maker
	for i := 0; b.Loop(); i++ {
		changed := *in.Slices[i%1000]
		in.Slices[i%1000] = &changed
		m.Make(in)
	}
}

// TestMakerKeepsRules: a Maker keeps the rules of unchanged Services. It makes them anew after a
// change of the Service, a slice or the node's zone.
func TestMakerKeepsRules(t *testing.T) {
	var m Maker
	s := slice(net1, ready("172.16.91.1"))
	in := Input{Node: here, Services: []*Service{web()}, Slices: []*Slice{s}, Clients: []Client{client("pod", net1)}}
	f := balance.Frontend{Addr: netip.MustParseAddr("10.96.0.1"), Port: 80, Protocol: balance.TCP}
	rule := func() *balance.Rule { table := m.Make(in); return table.Views[table.Pods[0].View][f] }
	first := rule()
	if rule() != first {
		t.Error("the rule of an unchanged Service was made anew")
	}
	in.Slices = []*Slice{slice(net1, ready("172.16.91.2"))}
	if got := rule().Backends[0].Addr().String(); got != "172.16.91.2" {
		t.Errorf("after a change of the slice the backend is %s", got)
	}
	in.Services = []*Service{web(func(s *Service) { s.Affinity = time.Hour })}
	if got := rule().Affinity; got != time.Hour {
		t.Errorf("after a change of the Service the affinity is %v", got)
	}
	in.Slices = []*Slice{slice(net1, with(ready("172.16.91.1"), func(e *Endpoint) { e.Zones = []string{"a"} }), with(ready("172.16.91.2"), func(e *Endpoint) { e.Zones = []string{"b"} }))}
	rule()
	in.Node.Zone = "b"
	if got := rule().Backends; len(got) != 1 || got[0].Addr().String() != "172.16.91.2" {
		t.Errorf("after a change of the zone the backends are %v", got)
	}
}
