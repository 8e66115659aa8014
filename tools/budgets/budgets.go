package main

import (
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/screen"
)

// budget is one line of the design's table of budgets, as far as one node can measure it.
type budget struct {
	what      string
	benchmark string
	metric    string
	least     bool // bound is the least that is allowed, else the most
	bound     float64
	unit      string
}

var budgets = []budget{
	{"attach, to the bare kernel work", "BenchmarkAttach", "x-floor", false, 1.5, "x"},
	{"detach, to the bare kernel work", "BenchmarkDetach", "x-floor", false, 1.5, "x"},
	{"8 attaches at once, to 8 bare ones", "BenchmarkAttachParallel", "x-floor", false, 1.5, "x"},
	{"attach of a bond of 2, to 2 attaches", "BenchmarkAttachBond", "x-two-attaches", false, 1.3, "x"},
	{"attach, faster than the usual chain", "BenchmarkPodAttach", "x-faster-vf-than-chain", true, 5, "x"},
	{"making 7 VFs, to the kernel's own time", "BenchmarkVFCreate", "x-floor", false, 1.1, "x"},
	{"the shim", "BenchmarkShimExec", "MB", false, 6, " MB"},
	{"memory at 256 VFs, in a burst", "BenchmarkMemory256", "burst-MiB", false, 40, " MiB"},
	{"growth in 10 bursts of 256", "BenchmarkMemory256", "x-growth", false, 1.15, "x"},
	{"memory after 1,000 attachments", "BenchmarkMemory", "after-MiB", false, 40, " MiB"},
	{"ClusterIP by eBPF, throughput, to the pod's own address", "BenchmarkClusterIP/eBPF/throughput", "x-of-own-address", true, 0.95, "x"},
	{"ClusterIP by eBPF, requests, to the pod's own address", "BenchmarkClusterIP/eBPF/requests", "x-of-own-address", true, 0.95, "x"},
	{"connecting to a ClusterIP at the socket, added", "BenchmarkConnect", "added-ns", false, 5000, " ns"},
	{"1,000 Services x 10 endpoints, memory in culvertd", "BenchmarkFullSync", "MiB", false, 10, " MiB"},
	{"one of 10,000 endpoints, its update in the kernel", "BenchmarkUpdateEndpoint", "update-ms", false, 10, " ms"},
	{"an endpoint leaves, until new connections follow", "BenchmarkEndpointChange", "leave-p50-ms", false, 200, " ms"},
	{"an endpoint joins, until new connections follow", "BenchmarkEndpointChange", "join-p50-ms", false, 200, " ms"},
	{"a fast node, to its first command", "BenchmarkStart/Fast", "restored-s", false, 1.5, " s"},
	{"culvert lab up, two nodes", "BenchmarkStart/Lab", "restored-s", false, 6, " s"},
	{"culvert lab up --guests", "BenchmarkStart/Guests", "restored-s", false, 15, " s"},
	{"culvert lab up --kubernetes", "BenchmarkStart/Kubernetes", "restored-s", false, 20, " s"},
	{"an address of a warm block, in the attach's transaction, p99", "BenchmarkWarmBlock/held=256", "own-p99-us", false, 100, " us"},
	{"an address of a warm block, a whole transaction, median", "BenchmarkWarmBlock/held=256", "p50-us", false, 100, " us"},
	{"an address of a warm block, a whole transaction, p99", "BenchmarkWarmBlock/held=256", "p99-us", false, 100, " us"},
	{"addresses of 1,000 nodes, 10 ms to the API server", "BenchmarkAddresses/nodes=1000/latency=10ms", "addresses/s", true, 500, " a second"},
	{"addresses, faster than whereabouts", "BenchmarkAddressesAgainstWhereabouts/nodes=1000/latency=10ms", "x", true, 25, "x"},
	{"TCP throughput with guard: ip", "BenchmarkThroughput", "x-ip", true, 0.98, "x"},
	{"TCP throughput with guard: arp", "BenchmarkThroughput", "x-arp", true, 0.98, "x"},
	{"growth in 1,000 attachments", "BenchmarkMemory", "x-growth", false, 1.15, "x"},
}

func (b budget) isMet(v float64) bool { return b.least && v >= b.bound || !b.least && v <= b.bound }

// formatTable returns a table with one line for each budget and node. For a budget that was
// measured several times the line has the median.
func formatTable(all []*section) string {
	rows := []string{"BUDGET\tNODE\tALLOWED\tMEASURED\t"}
	for _, b := range budgets {
		for _, s := range all {
			for _, n := range s.order {
				if n.benchmark == b.benchmark && n.unit == b.metric {
					rows = append(rows, b.formatRow(s.part, bench.Median(s.values[n])))
				}
			}
		}
	}
	if len(rows) == 1 {
		return "" // the design has no budget for these parts
	}
	return alignRows(rows)
}

// alignRows writes rows of cells, which tabs separate, below each other. The first has the heads.
func alignRows(rows []string) string {
	if len(rows) == 0 {
		return ""
	}
	t := screen.NewTable(strings.Split(rows[0], "\t")...)
	for _, row := range rows[1:] {
		t.Add(screen.Words(strings.Split(row, "\t")...)...)
	}
	var text strings.Builder
	t.Write(&text, screen.Look{})
	return text.String()
}

func (b budget) formatRow(node string, v float64) string {
	bound, verdict := "at most", "met"
	if b.least {
		bound = "at least"
	}
	if !b.isMet(v) {
		verdict = "not met"
	}
	return fmt.Sprintf("%s\t%s\t%s %g%s\t%.3g%s\t%s", b.what, node, bound, b.bound, b.unit, v, b.unit, verdict)
}
