package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
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
	{"attach, faster than the usual chain", "BenchmarkAttach", "x-faster-than-chain", true, 5, "x"},
	{"making 7 VFs, to the kernel's own time", "BenchmarkVFCreate", "x-floor", false, 1.1, "x"},
	{"the shim", "BenchmarkShimExec", "MB", false, 6, " MB"},
	{"memory at 256 VFs, in a burst", "BenchmarkMemory256", "burst-MiB", false, 40, " MiB"},
	{"growth in 10 bursts of 256", "BenchmarkMemory256", "x-growth", false, 1.15, "x"},
	{"memory after 1,000 attachments", "BenchmarkMemory", "after-MiB", false, 40, " MiB"},
	{"growth in 1,000 attachments", "BenchmarkMemory", "x-growth", false, 1.15, "x"},
}

// measured is one metric of one line of Go's benchmark format.
type measured struct {
	where, benchmark, metric string
	value                    float64
}

// parse reads Go's benchmark format: a name, the iterations, then a value and
// its unit again and again. Other lines are passed over.
func parse(where string, r io.Reader) ([]measured, error) {
	var out []measured
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name, _, _ := strings.Cut(f[0], "-") // the number of processors
		for i := 2; i+1 < len(f); i += 2 {
			v, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f[0], err)
			}
			out = append(out, measured{where, name, f[i+1], v})
		}
	}
	return out, lines.Err()
}

func (b budget) met(v float64) bool { return b.least && v >= b.bound || !b.least && v <= b.bound }

// table has one line for each budget and node.
func table(all []measured) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "BUDGET\tNODE\tALLOWED\tMEASURED\t")
	for _, b := range budgets {
		for _, m := range all {
			if m.benchmark != b.benchmark || m.metric != b.metric {
				continue
			}
			bound, verdict := "at most", "met"
			if b.least {
				bound = "at least"
			}
			if !b.met(m.value) {
				verdict = "not met"
			}
			fmt.Fprintf(w, "%s\t%s\t%s %g%s\t%.3g%s\t%s\n", b.what, m.where, bound, b.bound, b.unit, m.value, b.unit, verdict)
		}
	}
	if err := w.Flush(); err != nil {
		return err.Error()
	}
	return text.String()
}
