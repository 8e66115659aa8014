package engine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
)

// The names of the engines, which workloads have.
const (
	Own    = "culvert" // this package
	Iperf3 = "iperf3"
	Iperf2 = "iperf2"
	Pktgen = "pktgen" // the kernel's packet generator
	Ping   = "ping"
	// Testpmd is DPDK's program for tests (dpdk-testpmd). It drives a VF by itself, without the
	// kernel.
	Testpmd = "testpmd"
)

// Engine describes a way to make traffic.
type Engine struct {
	Name  string
	Kinds []bench.Kind // the workloads that it carries
	// Program is the program that an end starts, and Package is its package in Debian. Both are
	// empty if an end starts no program.
	Program, Package string
	// Task is the beginning of the names of its processes and kernel threads, other than Culvert's
	// agent.
	Task string
	// SenderOnly is set where the kernel of the end that receives answers or counts, and needs no
	// engine.
	SenderOnly bool
	// Held is set where a sender that is ready waits for the conductor's signal, so that several
	// begin together.
	Held bool
	// Bypasses is set where the engine drives the NIC without the kernel: an end is a PCI device, and
	// no other engine can take its place.
	Bypasses bool
	// ToMAC is set where frames have the receiver's own MAC address, which no router takes.
	ToMAC bool
}

// Engines lists every engine. Agents, presets and evidence read this list. listTools of bench/agent adds
// how an agent runs the engines that are programs.
func Engines() []Engine {
	return []Engine{
		{Name: Own, Kinds: []bench.Kind{bench.Stream, bench.Datagram, bench.Request, bench.Connect, bench.Packets}, Held: true},
		{Name: Iperf3, Kinds: []bench.Kind{bench.Stream}, Program: "iperf3", Package: "iperf3", Task: "iperf3"},
		{Name: Iperf2, Kinds: []bench.Kind{bench.Stream}, Program: "iperf", Package: "iperf", Task: "iperf"},
		{Name: Pktgen, Kinds: []bench.Kind{bench.Packets}, Task: "kpktgend_", SenderOnly: true, ToMAC: true},
		{Name: Ping, Kinds: []bench.Kind{bench.Echo}, Program: "ping", Package: "iputils-ping", SenderOnly: true},
		{Name: Testpmd, Kinds: []bench.Kind{bench.Packets}, Program: "dpdk-testpmd", Package: "dpdk-dev", Task: "dpdk-testpmd", Bypasses: true},
	}
}

// FindEngine returns the engine of a name, and whether there is one.
func FindEngine(name string) (Engine, bool) {
	all := Engines()
	i := slices.IndexFunc(all, func(e Engine) bool { return e.Name == name })
	if i < 0 {
		return Engine{}, false
	}
	return all[i], true
}

// SecondsOf returns how many seconds an engine's own processes and threads ran. tasks has the
// seconds of all tasks by their names.
func SecondsOf(name string, tasks map[string]float64) (sum float64) {
	for task, seconds := range tasks {
		if is := engineOf(task); is != "" && is == name {
			sum += seconds
		}
	}
	return sum
}

// TaskOf returns the name that a program of an engine has among tasks: its own, or that of Culvert's
// engine, which runs in an agent whatever the agent's program is called.
func TaskOf(program string) string {
	if is := engineOf(program); is == "" || is == Own {
		return Own
	}
	return program
}

// engineOf returns the engine whose task's name is the longest prefix of task, since iperf3's
// name begins with that of iperf 2.
func engineOf(task string) string {
	best := Engine{}
	for _, e := range Engines() {
		begins := cmp.Or(e.Task, e.Name)
		if strings.HasPrefix(task, begins) && len(begins) > len(cmp.Or(best.Task, best.Name)) {
			best = e
		}
	}
	return best.Name
}

// Carries reports whether the engine carries workloads of a kind.
func (e Engine) Carries(k bench.Kind) bool { return slices.Contains(e.Kinds, k) }
