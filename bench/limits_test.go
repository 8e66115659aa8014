package bench

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLimits has a run for each limit, and one in which several meet.
func TestLimits(t *testing.T) {
	vf := 3
	arm := Arm{
		Path: Path{From: End{Machine: "a", Interface: "net1", PF: "enp1s0", VF: &vf}, To: End{Machine: "b", Name: "db1", Interface: "eth0"}}, CeilingGbps: 9.41, CeilingPPS: 14e6,
		Workload: Workload{Kind: Stream, Engine: "culvert", Streams: 2, Window: 65536},
	}
	with := func(change func(*Workload)) Arm {
		a := arm
		change(&a.Workload)
		return a
	}
	bound := func(a Arm, change func(*Arm)) Arm {
		change(&a)
		return a
	}
	packets := with(func(w *Workload) { *w = Workload{Kind: Packets, Engine: "pktgen", Rate: 1e6} })
	one := arm
	one.Path.To.Machine = "a"
	full := Evidence{CPU: CPUUse{Seconds: 10, System: 9, Idle: 10, Busiest: 0.99, Busy: []float64{0.1, 0.99}, Tasks: map[string]float64{"vhost-77": 9, "iperf3": 2}}}
	stolen := Evidence{CPU: CPUUse{Seconds: 10, System: 9, Idle: 9, Steal: 2, Busiest: 0.96}}
	spent := Evidence{CPU: CPUUse{Seconds: 10, System: 9, Idle: 30, Busiest: 0.9, Tasks: map[string]float64{"culvert": 9.1}}, EngineSeconds: 9.1}
	waiting := Evidence{CPU: CPUUse{Seconds: 10, System: 5, Idle: 30, Busiest: 0.5, Tasks: map[string]float64{"culvert": 4}}, EngineSeconds: 4}
	dropping := Evidence{Interfaces: []Counters{
		{Interface: "eth0", Role: "path", RxPackets: 900, RxDropped: 100, TxPackets: 1e9, TxDropped: 1}, {Interface: "eth9", Role: "other", RxDropped: 7},
	}}
	stuck := Evidence{Interfaces: []Counters{{Interface: "net1", Role: "path", RxPackets: 900, TxPackets: 950, TxDropped: 50}}}
	for name, c := range map[string]struct {
		run  Run
		arm  Arm
		want []Limit
	}{
		"wire": {Run{Gbps: 9.4}, arm, []Limit{{"wire", "net1 (VF 3 of enp1s0) on a", "9.40 Gb/s, 100 % of what the wire can carry of this"}}},
		"wire, packets": {Run{PPS: 13.9e6}, arm, []Limit{
			{"wire", "net1 (VF 3 of enp1s0) on a", "13900000 packets a second, 99 % of what the wire can carry of this size"}}},
		"rate limit of the VF": {Run{Gbps: 0.93}, bound(arm, func(a *Arm) { a.RateMbps = 1000 }), []Limit{
			{"rate limit", "net1 (VF 3 of enp1s0) on a", "0.930 Gb/s of the 0.941 Gb/s of payload that fit into the 1000 Mb/s that the VF may send"}}},
		"a rate that nothing keeps": {Run{Gbps: 1.2}, bound(arm, func(a *Arm) { a.RateMbps = 1000 }), []Limit{{"unknown", "", "no bound was reached, no processor was full and nothing was dropped"}}},
		"above the wire":            {Run{Gbps: 9.6}, arm, []Limit{{"unknown", "", "no bound was reached, no processor was full and nothing was dropped"}}},
		"the other end sends": {Run{Gbps: 9.4}, with(func(w *Workload) { w.Reverse = true }), []Limit{
			{"wire", "eth0 on b", "9.40 Gb/s, 100 % of what the wire can carry of this"}}},
		"asked for no more":                             {Run{Seconds: 10, Sent: 1e7, PPS: 5e5}, packets, []Limit{{"rate limit", "workload", "no more than 1000000 a second was asked for"}}},
		"asked for no more, in the sender's own window": {Run{Seconds: 10, SentSeconds: 5, Sent: 49e5, PPS: 5e5}, packets, []Limit{{"rate limit", "workload", "no more than 1000000 a second was asked for"}}},
		"asked for no more, datagrams":                  {Run{Gbps: 0.97}, with(func(w *Workload) { *w = Workload{Kind: Datagram, Rate: 1e9} }), []Limit{{"rate limit", "workload", "no more than 1000000000 a second was asked for"}}},
		"asked for no more, a stream":                   {Run{Gbps: 0.97}, with(func(w *Workload) { *w = Workload{Kind: Stream, Rate: 1e9} }), []Limit{{"rate limit", "workload", "no more than 1000000000 a second was asked for"}}},
		"asked for no more, connections":                {Run{PPS: 99}, with(func(w *Workload) { *w = Workload{Kind: Connect, Rate: 100} }), []Limit{{"rate limit", "workload", "no more than 100 a second was asked for"}}},
		"generator, packets": {Run{Seconds: 10, Sent: 9e6, PPS: 5e5, From: spent}, bound(packets, func(a *Arm) { a.GeneratorPPS = 9e5 }), []Limit{
			{"generator", "a", "900000 packets a second sent with 0.910 processors busy, and pktgen makes 900000 there without a network, over loopback"}}},
		"generator": {Run{Gbps: 5, From: spent}, bound(arm, func(a *Arm) { a.GeneratorGbps = 5.1 }), []Limit{
			{"generator", "a", "5 Gb/s with 0.910 processors busy, and culvert makes 5.10 Gb/s there without a network, over loopback"}}},
		"a generator that waits": {Run{Gbps: 5, From: waiting}, bound(arm, func(a *Arm) { a.GeneratorGbps = 5.1 }), []Limit{{"unknown", "", "no bound was reached, no processor was full and nothing was dropped"}}},
		"a generator at the other end": {Run{Gbps: 5, From: spent, To: waiting}, bound(with(func(w *Workload) { w.Reverse = true }), func(a *Arm) { a.GeneratorGbps = 5.1 }), []Limit{
			{"unknown", "", "no bound was reached, no processor was full and nothing was dropped"}}},
		"a local tbf": {Run{Gbps: 0.094}, bound(arm, func(a *Arm) { a.QdiscMbps = 100 }), []Limit{
			{"qdisc", "net1 (VF 3 of enp1s0) on a", "0.0940 Gb/s of the 0.0956 Gb/s of payload that fit into the 100 Mb/s that a queueing discipline passes (tc qdisc)"}}},
		"packets through a tbf": {Run{Gbps: 0.2, SentSeconds: 1, Sent: 205000}, bound(packets, func(a *Arm) { a.QdiscMbps = 100 }), []Limit{
			{"qdisc", "net1 (VF 3 of enp1s0) on a", "205000 packets a second of the 208333 that fit into the 100 Mb/s that a queueing discipline passes (tc qdisc)"}}},
		"above a tbf": {Run{Gbps: 0.2}, bound(arm, func(a *Arm) { a.QdiscMbps = 100 }), []Limit{
			{"unknown", "", "no bound was reached, no processor was full and nothing was dropped"}}},
		"window": {Run{Gbps: 1}, bound(arm, func(a *Arm) { a.RTT = 1000 }), []Limit{
			{"window", "net1 (VF 3 of enp1s0) on a", "1 Gb/s; 131072 bytes in flight and a round trip of 1000 us allow 1.05 Gb/s"}}},
		"core":           {Run{Gbps: 1, To: full}, arm, []Limit{{"core", "b", "processor 1 was busy 99 % of the time; most by vhost-77, 9 s of 10 s"}}},
		"a guest's core": {Run{Gbps: 1, To: Evidence{Guest: &full.CPU}}, arm, []Limit{{"core", "db1 on b", "processor 1 was busy 99 % of the time; most by vhost-77, 9 s of 10 s"}}},
		"core and steal": {Run{Gbps: 1, From: stolen}, arm, []Limit{
			{"core", "a", "the busiest processor was busy 96 % of the time"}, {"steal", "a", "the hypervisor gave 10 % of the processors' time to others"}}},
		"one machine is told once": {Run{Gbps: 1, From: full, To: full}, one, []Limit{{"core", "a", "processor 1 was busy 99 % of the time; most by vhost-77, 9 s of 10 s"}}},
		"ring":                     {Run{Gbps: 1, To: dropping}, arm, []Limit{{"ring", "eth0 on b", "100 packets dropped on receiving, 10 % of them"}}},
		"ring of the sender":       {Run{Gbps: 1, From: stuck}, arm, []Limit{{"ring", "net1 on a", "50 packets dropped on sending, 5 % of them"}}},
		"softnet": {Run{Gbps: 1, To: Evidence{Softnet: Softnet{Dropped: 5}}}, arm, []Limit{
			{"softnet", "b", "5 packets dropped because a processor's backlog was full (net.core.netdev_max_backlog)"}}},
		"strongest first": {Run{Gbps: 9.4, To: Evidence{CPU: full.CPU, Interfaces: dropping.Interfaces}}, arm, []Limit{
			{"wire", "net1 (VF 3 of enp1s0) on a", "9.40 Gb/s, 100 % of what the wire can carry of this"},
			{"core", "b", "processor 1 was busy 99 % of the time; most by vhost-77, 9 s of 10 s"}, {"ring", "eth0 on b", "100 packets dropped on receiving, 10 % of them"}}},
		"unknown": {Run{Gbps: 1, From: work(1), To: work(1)}, bound(arm, func(a *Arm) { a.GeneratorGbps, a.RTT, a.RateMbps = 9, 1, 5000 }), []Limit{
			{"unknown", "", "no bound was reached, no processor was full and nothing was dropped"}}},
	} {
		if name == "unknown" {
			c.run.From.CPU.Steal, c.run.To.CPU.Steal = 0, 0
		}
		if diff := cmp.Diff(c.want, Limits(c.run, c.arm)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// TestRateCeiling: the rate of a VF counts all bytes on the wire, so that less of it is payload.
// The MTU, the VLAN and the family are those of the end that sends.
func TestRateCeiling(t *testing.T) {
	six := netip.MustParseAddr("fd00::1")
	for name, c := range map[string]struct {
		arm  Arm
		want float64
	}{
		"no limit":            {Arm{Workload: Workload{Kind: Stream}}, 0},
		"1 Gb/s":              {Arm{Workload: Workload{Kind: Stream}, Bounds: Bounds{RateMbps: 1000}}, 1448.0 / 1538},
		"in a VLAN":           {Arm{Workload: Workload{Kind: Stream}, Bounds: Bounds{RateMbps: 1000, VLANs: 1}}, 1448.0 / 1542},
		"large frames":        {Arm{Workload: Workload{Kind: Stream}, Bounds: Bounds{RateMbps: 1000}, Path: Path{From: End{MTU: 9000}}}, 8948.0 / 9038},
		"IPv6":                {Arm{Workload: Workload{Kind: Stream}, Bounds: Bounds{RateMbps: 1000}, Path: Path{From: End{Address: six}}}, 1428.0 / 1538},
		"the other end sends": {Arm{Workload: Workload{Kind: Stream, Reverse: true}, Bounds: Bounds{RateMbps: 1000}, Path: Path{From: End{MTU: 9000}, To: End{Address: six}}}, 1428.0 / 1538},
		"questions":           {Arm{Workload: Workload{Kind: Request}, Bounds: Bounds{RateMbps: 1000}}, 0},
	} {
		if got := c.arm.RateCeiling(); !nearlyEqual(got, c.want) {
			t.Errorf("%s: %g Gb/s, want %g", name, got, c.want)
		}
	}
}
