package conduct

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/bench"
)

// A station is in the middle of a path if both ends have it as their gateway, or if neither has a
// gateway and the station has a bridge.
func TestThrough(t *testing.T) {
	a, b := pod("a", "n1", "p0", ip("10.1.0.1"), ip("172.16.0.1")), pod("b", "n2", "p0", ip("10.2.0.1"), ip("172.16.0.2"))
	route(&a, &b, ip("10.1.0.1"), ip("10.2.0.1"))
	route(&a, &b, ip("172.16.0.1"), ip("172.16.0.2"))
	ends := []*Station{{Site: a}, {Site: b}}
	via := func(ends ...bench.End) *Station {
		return &Station{Site: Site{Name: "r", Machine: bench.Machine{Name: "n3"}, Ends: ends}}
	}
	router := []bench.End{{Interface: "eth1", Address: ip("10.1.0.254")}, {Interface: "eth2", Address: ip("10.2.0.254")}}
	bridge := bench.End{Interface: "br0", Driver: "bridge"}
	gateways := func(there, back string) {
		for _, s := range []struct {
			site Site
			to   netip.Addr
			by   string
		}{{a, ip("10.2.0.1"), there}, {b, ip("10.1.0.1"), back}} {
			r := s.site.Routes[s.to]
			r.Gateway = netip.Addr{}
			if s.by != "" {
				r.Gateway = ip(s.by)
			}
			s.site.Routes[s.to] = r
		}
	}
	routed := bench.Relay{Machine: "n3", Name: "r", How: bench.Routes, In: "eth1", Out: "eth2"}
	bridged := bench.Relay{Machine: "n3", Name: "r", How: bench.Bridges}
	for _, c := range []struct {
		name, there, back string
		via               *Station
		want              []bench.Relay // of the paths that are left
		why               string
	}{
		{"a router", "10.1.0.254", "10.2.0.254", via(router...), []bench.Relay{routed}, ""},
		{"a router that bridges too", "10.1.0.254", "10.2.0.254", via(append(router, bridge)...), []bench.Relay{routed, bridged}, ""},
		{"one way only", "10.1.0.254", "", via(router...), nil, "the way there has the gateway 10.1.0.254 and the way back no gateway"},
		{"another router", "10.1.0.254", "10.2.0.9", via(router...), nil, "the way back the gateway 10.2.0.9, and r would have to be both"},
		{"a bridge", "", "", via(bridge), []bench.Relay{bridged, bridged}, ""},
		{"no bridge", "", "", via(router...), nil, "they reach each other without a gateway, and r has no bridge"},
	} {
		gateways(c.there, c.back)
		paths, err := Through(c.via, ends, Paths(a, b))
		var got []bench.Relay
		for _, p := range paths {
			got = append(got, p.Via)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.name, diff)
		}
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", c.name, err, c.why)
		}
	}
}

// The relay in the middle must have received and sent the traffic that arrived.
func TestProofOfTheMiddle(t *testing.T) {
	path := func(name string) bench.Path {
		return bench.Path{
			From: bench.End{Machine: "n1", Name: name, Interface: "eth0"}, To: bench.End{Machine: "n2", Name: name, Interface: "eth0"},
			Via: bench.Relay{Machine: "n3", Name: "r", How: bench.Routes},
		}
	}
	arm := bench.Arm{Path: path("a"), Workload: bench.Workload{Kind: bench.Packets}}
	end := countingEnd(bench.Counters{Interface: "eth0", Role: "path", RxPackets: 1000, TxPackets: 1000})
	run := func(via *bench.Evidence) bench.Run {
		return bench.Run{Seconds: 10, Packets: 1000, From: end, To: end, Via: via}
	}
	seen := func(in, out uint64) *bench.Evidence {
		e := countingEnd(bench.Counters{Interface: "eth1", Role: "path", RxPackets: in}, bench.Counters{Interface: "eth2", Role: "path", TxPackets: out})
		return &e
	}
	down := seen(1000, 1000)
	down.Interfaces[1].Downs = 1
	for _, c := range []struct {
		name string
		via  *bench.Evidence
		want string
	}{
		{"all of it", seen(1200, 1000), ""},
		{"nobody looked", nil, "no agent saw the traffic that r forwarded"},
		{"it sent a fortieth less", seen(1000, 975), "no two interfaces of r received and sent the 1000 packets"},
		{"it received nothing", seen(31, 1000), "no two interfaces of r received and sent the 1000 packets"},
		{"it sent nothing", seen(1000, 31), "no two interfaces of r received and sent the 1000 packets"},
		{"its link flaps", down, "the link of eth2 of r went down in the run"},
	} {
		if why := Proof(arm, run(c.via)); (why == "") != (c.want == "") || !strings.Contains(why, c.want) {
			t.Errorf("%s: %q, want %q", c.name, why, c.want)
		}
	}
	// Two paths at once: it must have handed on what arrived over both.
	arm.Also = []bench.Path{path("b")}
	for via, want := range map[*bench.Evidence]string{seen(2000, 2000): "", seen(1200, 1200): "the 2000 packets"} {
		if why := Proof(arm, bench.Sum([]bench.Run{run(via), run(via)})); (why == "") != (want == "") || !strings.Contains(why, want) {
			t.Errorf("two at once: %q, want %q", why, want)
		}
	}
}

// newMiddle returns a world of three namespaces. Traffic from the first to the second goes through
// the last, which routes or bridges.
func newMiddle(t *testing.T, how bench.Forward) *world {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	w := &world{netns: make([]string, 3)}
	for i := range w.netns {
		w.netns[i] = fmt.Sprintf("cvmiddle%d-%d", os.Getpid(), i)
		run(t, "ip", "netns", "add", w.netns[i])
		t.Cleanup(func() { run(t, "ip", "netns", "del", w.netns[i]) })
		w.runIn(t, i, "link", "set", "lo", "up")
	}
	const r = 2
	if how == bench.Bridges {
		w.runIn(t, r, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
		w.runIn(t, r, "link", "set", "br0", "up")
	}
	for i := range r {
		port := fmt.Sprint("r", i)
		w.runIn(t, i, "link", "add", "name", "eth0", "type", "veth", "peer", "name", port, "netns", w.netns[r])
		w.runIn(t, i, "link", "set", "eth0", "up")
		w.runIn(t, r, "link", "set", port, "up")
		if how == bench.Bridges {
			w.runIn(t, r, "link", "set", port, "master", "br0")
			w.runIn(t, i, "addr", "add", fmt.Sprintf("10.95.0.%d/24", i+1), "dev", "eth0")
			continue
		}
		w.runIn(t, i, "addr", "add", fmt.Sprintf("10.95.%d.1/24", i), "dev", "eth0")
		w.runIn(t, r, "addr", "add", fmt.Sprintf("10.95.%d.254/24", i), "dev", port)
		w.runIn(t, i, "route", "add", "default", "via", fmt.Sprintf("10.95.%d.254", i))
	}
	if how == bench.Routes {
		w.filterSources(t, "0")
	}
	w.openAll(t)
	paths, err := Through(w.stations[r], w.stations, Between(w.stations[:1], w.stations[1:r]))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		w.exchange.Arms = append(w.exchange.Arms, bench.Arm{Path: p, Workload: bench.Workload{Kind: bench.Packets, Engine: "culvert", Size: 64, Seconds: 1}})
	}
	return w
}

// filterSources makes the router forward. With an rp of "1" it drops packets from sources to which
// it has no route, and with "0" it does not.
func (w *world) filterSources(t *testing.T, rp string) {
	t.Helper()
	run(t, "ip", "netns", "exec", w.netns[2], "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter="+rp, "net.ipv4.conf.r0.rp_filter="+rp)
}

// M12 and M13 as the reports have them: a machine in the middle forwards packets of many sources, or of many
// MACs, and its counters and processors are evidence. The measurement sets nothing on that machine.
func TestOnceThroughTheMiddle(t *testing.T) {
	for how, load := range map[bench.Forward]bench.Workload{bench.Routes: {Sources: 4096}, bench.Bridges: {MACs: 4096}} {
		t.Run(string(how), func(t *testing.T) {
			w := newMiddle(t, how)
			if len(w.exchange.Arms) != 1 {
				t.Fatalf("%d paths", len(w.exchange.Arms))
			}
			a := &w.exchange.Arms[0]
			a.Workload.Sources, a.Workload.MACs = load.Sources, load.MACs
			for _, reverse := range []bool{false, true} {
				a.Workload.Reverse = reverse
				got := w.goodRun(t, 0)
				if a.Path.Via.How != how || got.PPS <= 0 || got.Via == nil || got.Via.CPU.Seconds <= 0 || len(got.Via.Interfaces) != 2 {
					t.Errorf("%+v: %+v", a.Path.Via, got.Via)
				}
			}
			if m := Machines(w.stations, w.exchange.Arms); len(m) != 1 || len(m[0].Interfaces) < 4 {
				t.Errorf("the fingerprint lacks what is in the middle: %+v", m)
			}
		})
	}
}

// A router that drops sources without a way back to them lets nothing through, and the run says so.
func TestRouterThatFilters(t *testing.T) {
	w := newMiddle(t, bench.Routes)
	w.filterSources(t, "1")
	w.exchange.Arms[0].Workload.Sources = 4096
	if got, err := w.runOnce(t, 0); err != nil || !strings.Contains(got.Void, "rp_filter") || !strings.Contains(got.Void, "dev r0") {
		t.Errorf("%v: %q", err, got.Void)
	}
	w.runIn(t, 2, "route", "add", "198.18.0.0/15", "dev", "r0")
	w.goodRun(t, 0)
}

func TestDrops(t *testing.T) {
	index := 3
	vf := bench.Path{From: bench.End{Interface: "net1", VF: &index}}
	if why := explainDrops(vf, bench.Workload{MACs: 4096}); !strings.Contains(why, "net1 is a VF") {
		t.Error(why)
	}
	for _, w := range []bench.Workload{{}, {Sources: 4096}, {MACs: 1}} {
		if why := explainDrops(vf, w); why != "" {
			t.Errorf("%+v: %q", w, why)
		}
	}
}

// A router may receive and send by one interface. All of the run's frames are in both of its counters.
func TestProofOfARouterWithOneInterface(t *testing.T) {
	const frames = 130_000
	arm := bench.Arm{Workload: bench.Workload{Kind: bench.Packets, Size: 64, Sources: 4096}, Path: bench.Path{
		From: bench.End{Machine: "n1", Name: "a", Interface: "net1"}, To: bench.End{Machine: "n2", Name: "b", Interface: "net1"},
		Via: bench.Relay{Machine: "n1", Name: "r", How: bench.Routes, In: "net1", Out: "net1"},
	}}
	for foreign, want := range map[uint64]string{0: "", 2 * frames: "net1 of r received"} {
		via := countingEnd(bench.Counters{Interface: "net1", Role: "path", RxBytes: 64 * (frames + foreign), RxPackets: frames + foreign, TxBytes: 64 * frames, TxPackets: frames})
		run := bench.Run{
			Seconds: 1, Packets: frames, Totals: bench.Totals{Sent: frames, Arrived: frames}, Via: &via,
			From: countingEnd(bench.Counters{Interface: "net1", Role: "path", TxBytes: 64 * frames, TxPackets: frames}),
			To:   countingEnd(bench.Counters{Interface: "net1", Role: "path", RxBytes: 64 * frames, RxPackets: frames}),
		}
		if why := Proof(arm, run); (why == "") != (want == "") || !strings.Contains(why, want) {
			t.Errorf("%d frames of others: %q, want %q", foreign, why, want)
		}
	}
}
