package preset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
)

// onDevices reports whether a path is between VFs that DPDK drives.
func onDevices(p bench.Path) bool { return p.Network == "DPDK" }

func isVF(p bench.Path) bool { return p.Network == "VF" }

// isVFToVF reports whether a path goes from a VF to a VF, and not to a PF.
func isVFToVF(p bench.Path) bool { return isVF(p) && p.From.VF != nil && p.To.VF != nil }

// isForwarded returns a function that accepts paths through a machine that forwards so. Of paths
// without a machine in the middle it accepts those from a VF to a VF, as a substitute.
func isForwarded(how bench.Forward) func(bench.Path) bool {
	return func(p bench.Path) bool {
		if p.Via == (bench.Relay{}) {
			return isVFToVF(p)
		}
		return isAnyPath(p) && p.Via.How == how
	}
}

func isOverlay(p bench.Path) bool { return p.Network == "overlay" }

// isAnyPath reports whether a path goes to an end and not to a Service, since no report measured a
// Service.
func isAnyPath(p bench.Path) bool { return p.Network != "service" }

func vfPods(p bench.Path) bool { return isVFToVF(p) && isInner(p) }

// isInner reports whether a path is between pods, containers or virtual machines; a node's own ends
// are there for the presets.
func isInner(p bench.Path) bool { return !strings.Contains(p.Ends, "node") }

func figureGbps(name string, v float64) bench.Figure {
	return bench.Figure{Name: name, Value: v, Unit: "Gb/s"}
}

func figureMpps(name string, v float64) bench.Figure {
	return bench.Figure{Name: name, Value: v, Unit: "Mpps"}
}

func figureRetransmits(name string, v float64) bench.Figure {
	return bench.Figure{Name: name, Value: v, Unit: bench.RetransmitsUnit}
}

// standFor sets the words by which the arms of a figure are chosen: those that have all the words,
// between commas, in their name, ends or network.
func standFor(word string, f bench.Figure) bench.Figure {
	f.Arm = word
	return f
}

func figureRatio(name string, v float64, unit, arm, base string) bench.Figure {
	return bench.Figure{Name: name, Value: v, Unit: unit, Arm: arm, Base: base}
}

func figureText(name, text string) bench.Figure { return bench.Figure{Name: name, Text: text} }

// iperf3Stream returns the workload of iperf3 in the reports: one stream, with iperf3's defaults.
func iperf3Stream(seconds float64) bench.Workload {
	return bench.Workload{Kind: bench.Stream, Engine: engine.Iperf3, Seconds: seconds, Warmup: 1, Streams: 1}
}

// small is pktgen's pkt_size 64: 68 bytes on the wire with the checksum.
var small = bench.Workload{Kind: bench.Packets, Engine: engine.Pktgen, Seconds: 10, Warmup: 1, Size: 64}

// devices is m15's workload: the frames of m10, by DPDK.
var devices = changeWorkload(small, func(w *bench.Workload) { w.Engine = engine.Testpmd })

// many is the number of addresses that stands for R4's "many": so many that no flow table fits
// into a processor's first-level cache.
const many = 4096

func changeWorkload(w bench.Workload, change func(*bench.Workload)) bench.Workload {
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

// sizeVariants returns the variants of M6: 64 bytes to 512 KiB, in both directions.
func sizeVariants(w bench.Workload, quick bool) (all []variant) {
	for i, size := range []int{64, 128, 256, 512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10} {
		if quick && !slices.Contains([]int{0, 4, 8, 13}, i) {
			continue
		}
		name := nameSize(size)
		w.Size = size
		there, back := w, w
		back.Reverse = true
		all = append(all, variant{name, there}, variant{name + " back", back})
	}
	return all
}

// rateVariants returns variants with the lowest rate, but at least 10 Mb/s, and with parts of the
// highest rate.
func rateVariants(w bench.Workload, lowest, highest int, quick bool) (all []variant) {
	rates := []int{max(lowest, min(10, highest)), highest / 100, highest / 10, highest / 4, highest / 2, highest}
	if quick {
		rates = []int{highest / 10, highest / 2, highest}
	}
	for _, rate := range rates {
		rate = min(max(rate, lowest), highest)
		name := fmt.Sprintf("%d Mb/s", rate)
		if !slices.ContainsFunc(all, func(v variant) bool { return v.name == name }) {
			all = append(all, variant{name, changeWorkload(w, func(w *bench.Workload) { w.RateLimit = rate })})
		}
	}
	return all
}

// oneAndMany returns the variants of M18, one flow and many. The many flows differ in addresses
// as well: many NICs do not hash UDP ports, so flows that differ only in ports would share a
// queue.
func oneAndMany(w bench.Workload, _ bool) []variant {
	return []variant{
		{"1 flow", changeWorkload(w, func(w *bench.Workload) { w.Flows = 1 })},
		{fmt.Sprintf("%d flows", many), changeWorkload(w, func(w *bench.Workload) { w.Flows, w.Sources = many, many })},
	}
}

// manyAndOne returns the variants of M14. R4 received from many inner sources. Here inner flows
// differ in their source port, since an overlay drops addresses that are no pod's. VXLAN's outer
// source port is a hash of the inner packet, so that the receiver's queues share the flows as
// they share sources.
func manyAndOne(w bench.Workload, _ bool) []variant {
	return []variant{
		{fmt.Sprintf("%d flows", many), changeWorkload(w, func(w *bench.Workload) { w.Flows = many })},
		{"1 flow", changeWorkload(w, func(w *bench.Workload) { w.Flows = 1 })},
	}
}

// All returns the presets, M1 to M18, in order. Figures are as the reports print them.
func All() []Preset {
	return slices.Concat(streamPresets(), latencyPresets(), sweepPresets(), packetPresets())
}

// streamPresets returns M1 to M4.
func streamPresets() []Preset {
	return []Preset{
		{
			Name: "m1", Report: "R3", About: "iperf3, 10 s, 1 stream: node to node, pod to node, pod to pod, no encapsulation",
			Printed: []bench.Figure{standFor("node-node", figureGbps("R3 node-node", 6.31)), standFor("pod-node", figureGbps("R3 pod-node", 6.71)), standFor("pod-pod", figureGbps("R3 pod-pod", 6.05)), figureText("R3 retransmits", "5515 / 5997 / 2411")},
			Needs:   "host network and default pod network on two nodes",
			recipe: recipe{workload: iperf3Stream(10), takes: func(p bench.Path) bool { return isAnyPath(p) && !isVF(p) }, lacks: "a path beside the VFs'", notes: func(p bench.Path) string {
				if isOverlay(p) && p.From.MTU < 1500 {
					return fmt.Sprintf("the pods' MTU is %d, so this overlay probably encapsulates, which the report's did not", p.From.MTU)
				}
				return ""
			}},
		},
		{
			Name: "m2", Report: "R3", About: "M1 with encapsulation", Printed: []bench.Figure{figureText("R3 pod-pod", "drops badly")},
			Needs: "an overlay between two nodes, and the host network beside it",
			recipe: recipe{workload: iperf3Stream(10), takes: func(p bench.Path) bool { return isOverlay(p) || p.Ends == "node-node" },
				lacks: "pods on an overlay, best beside both nodes' own network"},
		},
		{
			Name: "m3", Report: "R0", About: "iperf3, 10 s, over the overlay, pod MTU 1450",
			Printed: []bench.Figure{figureGbps("R0 Calico", 4.59), figureGbps("R0 Calico received", 4.58), figureRetransmits("R0 Calico", 15580)},
			Needs:   "two pods on an overlay",
			recipe:  recipe{workload: iperf3Stream(10), takes: isOverlay, lacks: "two pods on an overlay", notes: wantMTU(1450)},
		},
		{
			Name: "m4", Report: "R0", About: "iperf3, 10 s, the same pods over the VF, MTU 1500",
			Printed: []bench.Figure{figureGbps("R0 VF", 9.42), figureGbps("R0 VF received", 9.41), figureRetransmits("R0 VF", 25)},
			Needs:   "a VF at both ends",
			recipe:  recipe{workload: iperf3Stream(10), takes: isVFToVF, lacks: "a VF at both ends", notes: wantMTU(1500)},
		},
	}
}

// latencyPresets returns M5.
func latencyPresets() []Preset {
	return []Preset{{
		Name: "m5", Report: "R0", About: "ping -c 3, from a VF to its PF, and to a VF of another node",
		Printed: []bench.Figure{{Name: "R0 to the PF", Arm: "pod-node,VF", Value: 206, Unit: "us"}, {Name: "R0 to a VF", Arm: "pod-pod,VF", Value: 212, Unit: "us"}},
		Needs:   "a VF, and an address of its PF (pfs[].addresses) or another VF; best beside an overlay",
		recipe: recipe{workload: bench.Workload{Kind: bench.Echo, Engine: engine.Ping, Seconds: 3, Rate: 1}, takes: isVF,
			beside: func(p bench.Path) bool { return isOverlay(p) && isInner(p) }, lacks: "a VF at one end at least"},
	}}
}

// sweepPresets returns M6 to M9, which all use VFs and TCP.
func sweepPresets() []Preset {
	return []Preset{
		{
			Name: "m6", Report: "R1", About: "iperf2, 60 s, 8 streams, window 512 KiB, writes of 64 B to 512 KiB, both ways, MTU 9000",
			Printed: []bench.Figure{standFor("512 KiB", figureGbps("R1 at its best", 98)), {Name: "R1 host CPU, at most", Arm: "512 KiB", Value: 35, Unit: bench.CPUUnit}}, Needs: "a VF at both ends, and MTU 9000 from end to end",
			recipe: recipe{workload: bench.Workload{Kind: bench.Stream, Engine: engine.Iperf2, Seconds: 60, Warmup: 1, Streams: 8, Window: 512 << 10},
				takes: isVFToVF, lacks: "a VF at both ends", arms: sizeVariants, notes: wantMTU(9000)},
		},
		{
			Name: "m7", Report: "R2", About: "iperf3 -t 1000 between VFs of different physical NICs",
			Printed: []bench.Figure{figureGbps("R2 sent", 9.42), figureGbps("R2 received", 9.41), figureText("R2 CPU", "25 % / 55 %")}, Needs: "VFs of two NICs, joined by a cable or a switch; in a cluster two networks: --network A --network B",
			recipe: recipe{workload: iperf3Stream(1000), takes: func(p bench.Path) bool { return isVFToVF(p) && (p.Place == "other PF" || p.Place == "other node") },
				lacks: "VFs of two PFs"},
		},
		{
			Name: "m8", Report: "R2", About: "iperf3 -t 1000 between two VFs of one NIC",
			Printed: []bench.Figure{figureGbps("R2", 16.7), figureText("R2 CPU", "55 % / 90 %")}, Needs: "two VFs of one PF",
			recipe: recipe{workload: iperf3Stream(1000), takes: func(p bench.Path) bool { return p.Place == "same PF" }, lacks: "two VFs of one PF, on one node"},
		},
		{
			Name: "m9", Report: "R2", About: "the cable is pulled while TCP runs", Printed: []bench.Figure{figureText("R2", "both paths stop")},
			Needs: "a cable that a person or a command (--pull) pulls, or a lab's",
			recipe: recipe{workload: bench.Workload{Kind: bench.Stream, Engine: engine.Own, Seconds: 30, Warmup: 1, Streams: 1, Pulled: true},
				takes: isVFToVF, lacks: "a VF at both ends"},
		},
	}
}

// packetPresets returns M10 to M18.
func packetPresets() []Preset {
	return []Preset{
		{
			Name: "m10", Report: "R4", About: "UDP of 64 B (pktgen), 1 sender to 1 receiver on another host",
			Printed: []bench.Figure{standFor("VF", figureMpps("R4 VF received", 1.9)), {Name: "R4 VF sent", Arm: "VF", Value: 3.5, Unit: bench.SentUnit},
				figureRatio("R4 VF to VXLAN, +1196 %", 12.96, bench.SentRatioUnit, "VF", "overlay"), figureRatio("R4 VF to VLAN, +677 %", 7.77, bench.SentRatioUnit, "VF", "VLAN")},
			Needs:  "a VF at both ends, best beside an overlay and a VLAN of a NIC",
			recipe: recipe{workload: small, takes: isAnyPath, lacks: "any path", unmixed: true},
		},
		{
			Name: "m11", Report: "R4", About: "UDP of 64 B (pktgen), 3 senders to 1 receiver",
			Printed: []bench.Figure{figureRatio("R4 VF to VXLAN, +363 %", 4.63, bench.RatioUnit, "VF", "overlay"), figureRatio("R4 VF to VLAN, +171 %", 2.71, bench.RatioUnit, "VF", "VLAN")},
			Needs:   "three senders on one host, an interface each: --from three times", Instead: "the report had three senders with a VF each; instead the one that is here sends with three threads (--from may be given three times)",
			recipe: recipe{workload: changeWorkload(small, func(w *bench.Workload) { w.Engine, w.Streams = engine.Own, 3 }), takes: isAnyPath, lacks: "any path", atOnce: toOne},
		},
		{
			Name: "m12", Report: "R4", About: "the kernel forwards IP, many source addresses",
			Printed: []bench.Figure{figureMpps("R4 BCM57800", 2), figureMpps("R4 X520", 10), figureMpps("R4 X710", 12)},
			Needs:   "a third machine in the middle, which routes: --via; in a cluster the node of a pod that routes, and two networks",
			Instead: fmt.Sprintf("the report's machine forwarded; instead the kernel receives from %d source addresses: forwarding costs more (--via names a machine that routes)", many),
			recipe:  recipe{workload: changeWorkload(small, func(w *bench.Workload) { w.Sources = many }), takes: isForwarded(bench.Routes), lacks: "a path through a machine that routes, or without --via a VF at both ends", via: true},
		},
		{
			Name: "m13", Report: "R4", About: "the kernel bridges, many source MACs",
			Printed: []bench.Figure{figureMpps("R4 BCM57800", 2), figureMpps("R4 X520", 7.3), figureMpps("R4 X710", 7.8)},
			Needs:   "a third machine in the middle, which bridges: --via; a VF that sends may do so as any MAC. Not in a cluster, and not over VFs of igb: a port of a bridge is promiscuous, and such a VF cannot be",
			Instead: fmt.Sprintf("the report's machine bridged; instead the kernel receives from %d source MACs: bridging costs more, and spoof check drops them (--via names a machine that bridges)", many),
			recipe:  recipe{workload: changeWorkload(small, func(w *bench.Workload) { w.MACs = many }), takes: isForwarded(bench.Bridges), lacks: "a path through a machine that bridges, or without --via a VF at both ends", via: true},
		},
		{
			Name: "m14", Report: "R4", About: "the kernel receives 64 B in VXLAN, from many inner sources",
			Printed: []bench.Figure{standFor(fmt.Sprintf("%d flows", many), figureMpps("R4, least", 1.1)), standFor(fmt.Sprintf("%d flows", many), figureMpps("R4, most", 1.2))},
			Needs:   "two pods on an overlay of VXLAN",
			Instead: fmt.Sprintf("the report's inner packets had many source addresses; instead they have %d source ports, which an overlay does not drop", many),
			recipe:  recipe{workload: small, takes: isOverlay, lacks: "two pods on an overlay", arms: manyAndOne, unmixed: true, vxlan: true},
		},
		{
			Name: "m15", Report: "R4", About: "DPDK forwards Ethernet frames of 64 B (testpmd)",
			Printed: []bench.Figure{figureMpps("R4 X520", 14.8), figureMpps("R4 X710", 14.8)},
			Needs:   "three VFs that are bound to vfio-pci (--from, --via and --to with ,pci=ADDRESS), and dpdk-testpmd with huge pages on their machines",
			Instead: "the report's machine forwarded; instead DPDK receives what DPDK sends (--via names the VF in the middle, which forwards)",
			recipe:  recipe{workload: devices, takes: onDevices, lacks: "VFs that DPDK drives, which --from and --to name with ,pci=ADDRESS", via: true},
		},
		{
			Name: "m16", Report: "R4", About: "64 B over N VFs of one X520 at once", Printed: []bench.Figure{figureMpps("R4 total", 11.2), {Name: "R4 each, 11.2/N", Value: 11.2, Unit: bench.EachUnit}},
			Needs: "N VFs of one PF, with a sender each: --from N times, and --to once or N times", Instead: "the report loaded N VFs at once; instead the one that is here is loaded: N is 1 (--from may be given N times)",
			recipe: recipe{workload: small, takes: vfPods, lacks: "pods, containers or guests with a VF at both ends", atOnce: ofOnePF},
		},
		{
			Name: "m17", Report: "R4", About: "a VF's rate limit is swept, 11 to 10000 Mb/s (X520), 50 to 10000 (X710)", Printed: []bench.Figure{figureText("R4", "sends only as much as it may")},
			Needs:  "a VF that culvertd gave to the end that sends, and that culvertd's socket there; in a cluster a pod of culvertd on its node",
			recipe: recipe{workload: iperf3Stream(10), takes: func(p bench.Path) bool { return p.From.VF != nil }, lacks: "a VF at the end that sends", unmixed: true, swept: true},
		},
		{
			Name: "m18", Report: "R4", About: "one flow against many: how receive queues share the work (RSS)",
			Printed: []bench.Figure{standFor("1 flow", figureMpps("R4 a core", 2)), standFor(fmt.Sprintf("%d flows", many), figureMpps("R4 two queues", 4))}, Needs: "a VF with more than one queue at the receiver",
			recipe: recipe{workload: small, takes: isVFToVF, lacks: "a VF at both ends", arms: oneAndMany},
		},
	}
}
