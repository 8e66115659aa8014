package main

import (
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/screen"
)

// budget is one line of the design's table that one node can show.
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
	{"attach, faster than the usual chain", "BenchmarkPodAttach", "x-faster-vf-than-chain", true, 5, "x"},
	{"making 7 VFs, to the kernel's own time", "BenchmarkVFCreate", "x-floor", false, 1.1, "x"},
	{"the shim", "BenchmarkShimExec", "MB", false, 6, " MB"},
	{"memory at 256 VFs, in a burst", "BenchmarkMemory256", "burst-MiB", false, 40, " MiB"},
	{"growth in 10 bursts of 256", "BenchmarkMemory256", "x-growth", false, 1.15, "x"},
	{"memory after 1,000 attachments", "BenchmarkMemory", "after-MiB", false, 40, " MiB"},
	{"a fast node, to its first command", "BenchmarkStart/Fast", "restored-s", false, 1.5, " s"},
	{"culvert lab up, two nodes", "BenchmarkStart/Lab", "restored-s", false, 6, " s"},
	{"culvert lab up --guests", "BenchmarkStart/Guests", "restored-s", false, 15, " s"},
	{"culvert lab up --kubernetes", "BenchmarkStart/Kubernetes", "restored-s", false, 20, " s"},
	{"growth in 1,000 attachments", "BenchmarkMemory", "x-growth", false, 1.15, "x"},
}

func (b budget) met(v float64) bool { return b.least && v >= b.bound || !b.least && v <= b.bound }

// table has one line for each budget and node. What was measured several times is the median.
func table(all []*section) string {
	rows := []string{"BUDGET\tNODE\tALLOWED\tMEASURED\t"}
	for _, b := range budgets {
		for _, s := range all {
			for _, n := range s.order {
				if n.benchmark == b.benchmark && n.unit == b.metric {
					rows = append(rows, b.row(s.part, bench.Median(s.values[n])))
				}
			}
		}
	}
	if len(rows) == 1 {
		return "" // of these parts the design says nothing
	}
	return align(rows)
}

// align writes rows of cells, which tabs separate, below each other. The first has the heads.
func align(rows []string) string {
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

func (b budget) row(node string, v float64) string {
	bound, verdict := "at most", "met"
	if b.least {
		bound = "at least"
	}
	if !b.met(v) {
		verdict = "not met"
	}
	return fmt.Sprintf("%s\t%s\t%s %g%s\t%.3g%s\t%s", b.what, node, bound, b.bound, b.unit, v, b.unit, verdict)
}
