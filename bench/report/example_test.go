package report

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/culvert-net/culvert/bench"
)

// makeExample makes up a result as two machines with XL710 NICs could have it: overlay and
// VF with streams (one run void), writes of many sizes, and questions; the VF has one
// queue on one processor.
func makeExample() bench.Result {
	e := &maker{random: rand.New(rand.NewPCG(1, 2)), at: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)}
	e.r = bench.Result{
		Schema: bench.Schema, Culvert: "v0.4.0", Preset: "m4", Started: e.at, Seed: 7, Machines: []bench.Machine{node("worker01"), node("worker02")},
		Notes: []string{"M5 wants a gateway on the PF; measured between the VFs instead."},
		Printed: []bench.Figure{
			{Name: "R0 Calico (M3)", Arm: "overlay", Value: 4.59, Unit: "Gb/s"}, {Name: "R0 VF (M4)", Arm: "VF", Value: 9.42, Unit: "Gb/s"},
			{Name: "R3 with encapsulation (M2)", Arm: "overlay", Unit: "Gb/s", Text: "drops badly"},
		},
	}
	e.r.Machines[1].Sysctls[0].Value = "4194304"
	stream := bench.Workload{Kind: bench.Stream, Engine: "iperf3", Version: "3.18", Seconds: 10, Warmup: 1, Streams: 1}
	ask := bench.Workload{Kind: bench.Request, Engine: "culvert", Seconds: 10, Streams: 1, Size: 1, Rate: 1000}
	e.addArm("overlay", stream, 4.6, 1.55, 0)
	e.addArm("VF", stream, 9.41, 1.3, 0)
	for _, bytes := range []int{64, 512, 4096, 32768, 262144} {
		w := bench.Workload{Kind: bench.Stream, Engine: "iperf2", Version: "2.1.9", Seconds: 60, Streams: 8, Size: bytes, Window: 512 << 10}
		small := float64(bytes) / (float64(bytes) + 1500)
		e.addArm("overlay "+formatSize(bytes), w, 6.2*small, 2.2, 0)
		e.addArm("VF "+formatSize(bytes), w, 9.4*small, 2.6-1.1*small, 0)
	}
	e.addArm("overlay, questions", ask, 0, 0.2, 96)
	e.addArm("VF, questions", ask, 0, 0.2, 51)
	e.addRun(1, "net1 of worker02 rose by 1.1 MB, of 11.8 GB that were claimed: the bytes went another way", false)
	e.r.Ended = e.at
	return e.r
}

type maker struct {
	r      bench.Result
	random *rand.Rand
	at     time.Time
	gbps   []float64
	cpu    []float64
	delay  []float64
}

func node(name string) bench.Machine {
	nic := func(name, driver string, queues, mtu int) bench.Interface {
		i := bench.Interface{Name: name, Driver: driver, MTU: mtu, SpeedMbps: 10000, RxQueues: queues, TxQueues: queues, RxRing: 512, TxRing: 512, PCI: "0000:01:00.0"}
		for q := range queues {
			i.IRQs = append(i.IRQs, bench.IRQ{Number: 40 + q, CPUs: fmt.Sprint(q)})
		}
		return i
	}
	return bench.Machine{
		Name: name, Kernel: "6.12.48+deb13-amd64", CPU: "Intel Xeon E5-2620 v4", CPUs: 16, NUMANodes: 2, MemoryMiB: 65536, Governor: "performance",
		Sysctls: []bench.Setting{{Name: "net.core.rmem_max", Value: "212992"}}, Tools: []bench.Setting{{Name: "iperf3", Value: "3.18"}},
		Interfaces: []bench.Interface{nic("enp1s0f0", "i40e", 16, 1500), nic("net1", "iavf", 1, 1500)},
	}
}

// addArm adds one with its runs: one to warm up and six that count.
func (m *maker) addArm(name string, w bench.Workload, gbps, cpu, delay float64) {
	vf := 2
	end := func(machine, pod, overlay, fast string) bench.End {
		if name[0] == 'V' {
			return bench.End{Machine: machine, Name: pod, Interface: "net1", Address: netip.MustParseAddr(fast), MTU: 1500, Driver: "iavf", PF: "enp1s0f0", VF: &vf}
		}
		return bench.End{Machine: machine, Name: pod, Interface: "eth0", Address: netip.MustParseAddr(overlay), MTU: 1450, Driver: "veth", Uplink: "enp1s0f0"}
	}
	a := bench.Arm{Name: name, Workload: w, Path: bench.Path{Ends: "pod-pod", Network: "overlay", Place: "other node",
		From: end("worker01", "default/client", "10.244.1.7", "172.16.91.20"), To: end("worker02", "default/server", "10.244.2.9", "172.16.91.21")}}
	wire := bench.Wire{SpeedMbps: 10000, MTU: 1450, Encapsulation: 50}
	if name[0] == 'V' {
		a.Path.Network, wire = "VF", bench.Wire{SpeedMbps: 10000, MTU: 1500}
	}
	a.CeilingGbps, a.CeilingPPS = wire.Ceiling(w)
	m.r.Arms = append(m.r.Arms, a)
	m.gbps, m.cpu, m.delay = append(m.gbps, gbps), append(m.cpu, cpu), append(m.delay, delay)
	m.addRun(len(m.r.Arms)-1, "", true)
	for range 6 {
		m.addRun(len(m.r.Arms)-1, "", false)
	}
}

// addRun adds one with noise: 2 % where the processor limits, next to none where the
// wire does.
func (m *maker) addRun(arm int, void string, discard bool) {
	a := m.r.Arms[arm]
	near := func(v float64) float64 { return v * (1 + 0.02*m.random.NormFloat64()) }
	g := min(near(m.gbps[arm]), 0.9999*a.CeilingGbps+0.0001*m.random.Float64())
	s := a.Workload.Seconds
	r := bench.Run{Arm: arm, Started: m.at, Discard: discard, Void: void, Seconds: s, Gbps: g, Bytes: uint64(g * s / 8 * 1e9), Packets: uint64(g * s / 8 * 1e9 / 1448)}
	if d := m.delay[arm]; d > 0 {
		d, r.Gbps, r.Bytes, r.Packets, r.Sent = near(d), 0, 1e4, 1e4, 1e4
		r.Delays = &bench.Delays{Count: 10000, Min: d * 0.7, Mean: d * 1.1, P50: d, P90: d * 1.3, P99: near(d * 2.2), P999: near(d * 6), Max: near(d * 14)}
	} else {
		for range 10 {
			r.Series = append(r.Series, min(near(g), max(g, a.CeilingGbps)))
		}
	}
	for i, e := range []*bench.Evidence{&r.From, &r.To} {
		busy := near(m.cpu[arm]) * s * (0.45 + 0.1*float64(i))
		e.CPU = bench.CPUUse{Seconds: s, User: busy * 0.1, System: busy * 0.5, SoftIRQ: busy * 0.4, Idle: 16*s - busy, Busiest: min(0.99, m.cpu[arm]*0.62), Tasks: map[string]float64{a.Workload.Engine: busy * 0.8}}
		e.Interfaces = []bench.Counters{{Interface: a.Path.To.Interface, Role: "path", RxBytes: r.Bytes, RxPackets: r.Packets}}
		before := 0.02 * float64(i+1)
		e.CPU.Background, e.CPU.Others = &before, map[string]float64{"kubelet": busy * 0.04, "node_exporter": busy * 0.01}
		if a.Path.Network != "VF" { // whose interface has one queue
			e.Queues = []uint64{r.Packets / 4, r.Packets - r.Packets/4}
		}
	}
	r.Limits = bench.Limits(r, a)
	m.r.Runs = append(m.r.Runs, r)
	m.at = m.at.Add(time.Duration(s+1) * time.Second)
}
