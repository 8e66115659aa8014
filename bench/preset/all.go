package preset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
)

func vf(p bench.Path) bool { return p.Network == "VF" }

// vfs is a path from a VF to a VF; one to a VF's PF is not.
func vfs(p bench.Path) bool { return vf(p) && p.From.VF != nil && p.To.VF != nil }

// forwarded is a path through a machine that forwards so; VFs stand in for those through none.
func forwarded(how bench.Forward) func(bench.Path) bool {
	return func(p bench.Path) bool {
		if p.Via == (bench.Relay{}) {
			return vfs(p)
		}
		return every(p) && p.Via.How == how
	}
}

func overlay(p bench.Path) bool { return p.Network == "overlay" }

// every is any path from end to end: no report measured a Service.
func every(p bench.Path) bool { return p.Network != "service" }

func vfPods(p bench.Path) bool { return vfs(p) && inner(p) }

// inner is a path between pods, containers or virtual machines; a node's own ends are there for the presets.
func inner(p bench.Path) bool { return !strings.Contains(p.Ends, "node") }

func gbps(name string, v float64) bench.Figure {
	return bench.Figure{Name: name, Value: v, Unit: "Gb/s"}
}

func mpps(name string, v float64) bench.Figure {
	return bench.Figure{Name: name, Value: v, Unit: "Mpps"}
}

func retransmits(name string, v float64) bench.Figure {
	return bench.Figure{Name: name, Value: v, Unit: bench.RetransmitsUnit}
}

// standing says which of several arms a figure stands for.
func standing(word string, f bench.Figure) bench.Figure {
	f.Arm = word
	return f
}

func said(name, text string) bench.Figure { return bench.Figure{Name: name, Text: text} }

// tcp is iperf3 as the reports ran it: one stream, with what iperf3 takes by itself.
func tcp(seconds float64) bench.Workload {
	return bench.Workload{Kind: bench.Stream, Engine: engine.Iperf3, Seconds: seconds, Warmup: 1, Streams: 1}
}

// small is pktgen's pkt_size 64: 68 bytes on the wire with the checksum.
var small = bench.Workload{Kind: bench.Packets, Engine: engine.Pktgen, Seconds: 10, Warmup: 1, Size: 64}

// many is how many addresses R4's "many" are here: no flow table holds them all in
// a processor's first cache.
const many = 4096

func with(w bench.Workload, change func(*bench.Workload)) bench.Workload {
	change(&w)
	return w
}

// wantMTU notes a path whose MTU is not the report's.
func wantMTU(mtu int) func(bench.Path) string {
	return func(p bench.Path) string {
		if got := min(p.From.MTU, p.To.MTU); got != mtu {
			return fmt.Sprintf("the report's MTU is %d; here it is %d on %s", mtu, got, p.From.Interface)
		}
		return ""
	}
}

// sizes are M6's, 64 bytes to 512 KiB, each way.
func sizes(w bench.Workload, quick bool) (all []variant) {
	for i, size := range []int{64, 128, 256, 512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10} {
		if quick && !slices.Contains([]int{0, 4, 8, 13}, i) {
			continue
		}
		name := fmt.Sprintf("%d B", size)
		if size >= 1<<10 {
			name = fmt.Sprintf("%d KiB", size>>10)
		}
		w.Size = size
		there, back := w, w
		back.Reverse = true
		all = append(all, variant{name, there}, variant{name + " back", back})
	}
	return all
}

// limits are the lowest rate, though not below 10 Mb/s, and parts of the highest one.
func limits(w bench.Workload, lowest, highest int, quick bool) (all []variant) {
	rates := []int{max(lowest, min(10, highest)), highest / 100, highest / 10, highest / 4, highest / 2, highest}
	if quick {
		rates = []int{highest / 10, highest / 2, highest}
	}
	for _, rate := range rates {
		rate = min(max(rate, lowest), highest)
		name := fmt.Sprintf("%d Mb/s", rate)
		if !slices.ContainsFunc(all, func(v variant) bool { return v.name == name }) {
			all = append(all, variant{name, with(w, func(w *bench.Workload) { w.RateLimit = rate })})
		}
	}
	return all
}

func oneAndMany(w bench.Workload, _ bool) []variant {
	return []variant{
		{"1 flow", with(w, func(w *bench.Workload) { w.Flows = 1 })},
		{fmt.Sprintf("%d flows", many), with(w, func(w *bench.Workload) { w.Flows = many })},
	}
}

// All are the presets, M1 to M18, in order. Figures are as the reports print them.
func All() []Preset {
	return slices.Concat(streams(), latencies(), sweeps(), packets())
}

// streams are M1 to M4.
func streams() []Preset {
	return []Preset{
		{
			Name: "m1", Report: "R3", About: "iperf3, 10 s, 1 stream: node to node, pod to node, pod to pod, no encapsulation",
			Printed: []bench.Figure{standing("node-node", gbps("R3 node-node", 6.31)), standing("pod-node", gbps("R3 pod-node", 6.71)), standing("pod-pod", gbps("R3 pod-pod", 6.05)), said("R3 retransmits", "5515 / 5997 / 2411")},
			Needs:   "host network and default pod network on two nodes",
			recipe: recipe{workload: tcp(10), takes: func(p bench.Path) bool { return every(p) && !vf(p) }, lacks: "a path beside the VFs'", notes: func(p bench.Path) string {
				if overlay(p) && p.From.MTU < 1500 {
					return fmt.Sprintf("the pods' MTU is %d, so this overlay probably encapsulates, which M1's did not: it is M2 that this measures", p.From.MTU)
				}
				return ""
			}},
		},
		{
			Name: "m2", Report: "R3", About: "M1 with encapsulation", Printed: []bench.Figure{said("R3 pod-pod", "drops badly")},
			Needs: "an overlay between two nodes, and the host network beside it",
			recipe: recipe{workload: tcp(10), takes: func(p bench.Path) bool { return overlay(p) || p.Ends == "node-node" },
				lacks: "pods on an overlay, best beside both nodes' own network"},
		},
		{
			Name: "m3", Report: "R0", About: "iperf3, 10 s, over the overlay, pod MTU 1450",
			Printed: []bench.Figure{gbps("R0 Calico", 4.59), gbps("R0 Calico received", 4.58), retransmits("R0 Calico", 15580)},
			Needs:   "two pods on an overlay",
			recipe:  recipe{workload: tcp(10), takes: overlay, lacks: "two pods on an overlay", notes: wantMTU(1450)},
		},
		{
			Name: "m4", Report: "R0", About: "iperf3, 10 s, the same pods over the VF, MTU 1500",
			Printed: []bench.Figure{gbps("R0 VF", 9.42), gbps("R0 VF received", 9.41), retransmits("R0 VF", 25)},
			Needs:   "a VF at both ends",
			recipe:  recipe{workload: tcp(10), takes: vfs, lacks: "a VF at both ends", notes: wantMTU(1500)},
		},
	}
}

// latencies are M5.
func latencies() []Preset {
	return []Preset{{
		Name: "m5", Report: "R0", About: "ping -c 3, from a VF to its PF, and to a VF of another node",
		Printed: []bench.Figure{{Name: "R0 to the PF", Arm: "pod-node", Value: 206, Unit: "us"}, {Name: "R0 to a VF", Arm: "pod-pod", Value: 212, Unit: "us"}},
		Needs:   "a VF, and its PF's own address or another VF; best beside an overlay",
		recipe: recipe{workload: bench.Workload{Kind: bench.Echo, Engine: engine.Ping, Seconds: 3, Rate: 1}, takes: vf,
			beside: func(p bench.Path) bool { return overlay(p) && inner(p) }, lacks: "a VF at one end at least"},
	}}
}

// sweeps are M6 to M9, all of VFs with TCP.
func sweeps() []Preset {
	return []Preset{
		{
			Name: "m6", Report: "R1", About: "iperf2, 60 s, 8 streams, window 512 KiB, writes of 64 B to 512 KiB, both ways, MTU 9000",
			Printed: []bench.Figure{standing("512 KiB", gbps("R1 at its best", 98)), said("R1 host CPU", "at most 35 %")}, Needs: "a VF at both ends, and MTU 9000 from end to end",
			recipe: recipe{workload: bench.Workload{Kind: bench.Stream, Engine: engine.Iperf2, Seconds: 60, Warmup: 1, Streams: 8, Window: 512 << 10},
				takes: vfs, lacks: "a VF at both ends", arms: sizes, notes: wantMTU(9000)},
		},
		{
			Name: "m7", Report: "R2", About: "iperf3 -t 1000 between VFs of different physical NICs",
			Printed: []bench.Figure{gbps("R2 sent", 9.42), gbps("R2 received", 9.41), said("R2 CPU", "25 % / 55 %")}, Needs: "VFs of two NICs, joined by a cable or a switch",
			recipe: recipe{workload: tcp(1000), takes: func(p bench.Path) bool { return vfs(p) && (p.Place == "other PF" || p.Place == "other node") },
				lacks: "VFs of two PFs"},
		},
		{
			Name: "m8", Report: "R2", About: "iperf3 -t 1000 between two VFs of one NIC",
			Printed: []bench.Figure{gbps("R2", 16.7), said("R2 CPU", "55 % / 90 %")}, Needs: "two VFs of one PF",
			recipe: recipe{workload: tcp(1000), takes: func(p bench.Path) bool { return p.Place == "same PF" }, lacks: "two VFs of one PF, on one node"},
		},
		{
			Name: "m9", Report: "R2", About: "the cable is pulled while TCP runs", Printed: []bench.Figure{said("R2", "both paths stop")},
			Needs: "a cable that can be pulled from here: a lab's",
			recipe: recipe{workload: bench.Workload{Kind: bench.Stream, Engine: engine.Own, Seconds: 30, Warmup: 1, Streams: 1, Pulled: true},
				takes: vfs, lacks: "a VF at both ends"},
		},
	}
}

// packets are M10 to M18.
func packets() []Preset {
	return []Preset{
		{
			Name: "m10", Report: "R4", About: "UDP of 64 B (pktgen), 1 sender to 1 receiver on another host",
			Printed: []bench.Figure{standing("VF", mpps("R4 VF received", 1.9)), said("R4 VF sent", "3.5 Mpps"), said("R4 sending, over VXLAN and VLAN", "+1196 % / +677 %")},
			Needs:   "a VF at both ends, best beside another path",
			recipe:  recipe{workload: small, takes: every, lacks: "any path"},
		},
		{
			Name: "m11", Report: "R4", About: "UDP of 64 B (pktgen), 3 senders to 1 receiver",
			Printed: []bench.Figure{said("R4 VF over VXLAN", "+363 %"), said("R4 VF over VLAN", "+171 %")},
			Needs:   "three senders on one host, an interface each: --from three times", Instead: "the report had three senders with a VF each; instead the one that is here sends with three threads (--from may be given three times)",
			recipe: recipe{workload: with(small, func(w *bench.Workload) { w.Engine, w.Streams = engine.Own, 3 }), takes: every, lacks: "any path", atOnce: toOne},
		},
		{
			Name: "m12", Report: "R4", About: "the kernel forwards IP, many source addresses",
			Printed: []bench.Figure{mpps("R4 BCM57800", 2), mpps("R4 X520", 10), mpps("R4 X710", 12)},
			Needs:   "a third machine in the middle, which routes: --via",
			Instead: fmt.Sprintf("the report's machine forwarded; instead the kernel receives from %d source addresses: forwarding costs more (--via names a machine that routes)", many),
			recipe:  recipe{workload: with(small, func(w *bench.Workload) { w.Sources = many }), takes: forwarded(bench.Routes), lacks: "a path through a machine that routes, or without --via a VF at both ends", via: true},
		},
		{
			Name: "m13", Report: "R4", About: "the kernel bridges, many source MACs",
			Printed: []bench.Figure{mpps("R4 BCM57800", 2), mpps("R4 X520", 7.3), mpps("R4 X710", 7.8)},
			Needs:   "a third machine in the middle, which bridges: --via; a VF that sends may do so as any MAC",
			Instead: fmt.Sprintf("the report's machine bridged; instead the kernel receives from %d source MACs: bridging costs more, and spoof check drops them (--via names a machine that bridges)", many),
			recipe:  recipe{workload: with(small, func(w *bench.Workload) { w.MACs = many }), takes: forwarded(bench.Bridges), lacks: "a path through a machine that bridges, or without --via a VF at both ends", via: true},
		},
		{
			Name: "m14", Report: "R4", About: "the kernel receives 64 B in VXLAN", Printed: []bench.Figure{mpps("R4, least", 1.1), mpps("R4, most", 1.2)},
			Needs: "two pods on an overlay of VXLAN", recipe: recipe{workload: small, takes: overlay, lacks: "two pods on an overlay"},
		},
		{
			Name: "m15", Report: "R4", About: "DPDK forwards Ethernet", Printed: []bench.Figure{mpps("R4 X520", 14.8), mpps("R4 X710", 14.8)}, Needs: "DPDK, and two ports bound to it",
			Refused: "it needs DPDK, which Culvert does not bring, and what the kernel forwards says nothing of it: m10 shows what one core receives without DPDK",
		},
		{
			Name: "m16", Report: "R4", About: "64 B over N VFs of one X520 at once", Printed: []bench.Figure{mpps("R4 total", 11.2), said("R4 each", "11.2/N Mpps")},
			Needs: "N VFs of one PF, with a sender each: --from N times, and --to once or N times", Instead: "the report loaded N VFs at once; instead the one that is here is loaded: N is 1 (--from may be given N times)",
			recipe: recipe{workload: small, takes: vfPods, lacks: "pods, containers or guests with a VF at both ends", atOnce: ofOnePF},
		},
		{
			Name: "m17", Report: "R4", About: "a VF's rate limit is swept, 11 to 10000 Mb/s (X520), 50 to 10000 (X710)", Printed: []bench.Figure{said("R4", "sends only as much as it may")},
			Needs:  "a VF that culvertd gave to the end that sends, and that culvertd's socket there",
			recipe: recipe{workload: tcp(10), takes: func(p bench.Path) bool { return p.From.VF != nil }, lacks: "a VF at the end that sends", swept: true},
		},
		{
			Name: "m18", Report: "R4", About: "one flow against many: how receive queues share the work (RSS)",
			Printed: []bench.Figure{standing("1 flow", mpps("R4 a core", 2)), standing(fmt.Sprintf("%d flows", many), mpps("R4 two queues", 4))}, Needs: "a VF with more than one queue at the receiver",
			recipe: recipe{workload: small, takes: vfs, lacks: "a VF at both ends", arms: oneAndMany},
		},
	}
}
