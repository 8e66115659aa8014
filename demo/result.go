package demo

import (
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/bench"
)

// Result is demo.json.
type Result struct {
	VF         Way               `json:"vf"`
	Overlay    Way               `json:"overlay"`
	Attach     bench.Percentiles `json:"attach_ms"` // from calling the plugin to its result
	Detach     bench.Percentiles `json:"detach_ms,omitzero"`
	VFsCreated int               `json:"vfs_created"`
	Leaked     int               `json:"leaked"` // VFs that are not as they were
	Accel      string            `json:"accel"`  // tcg or kvm
	WhyNotKVM  string            `json:"why_not_kvm,omitempty"`
	Problems   []string          `json:"problems,omitempty"`
}

// Way is what was measured over one way; lists have an entry a run.
type Way struct {
	Gbps        []float64 `json:"gbps"`
	Retransmits []float64 `json:"retransmits"`
	Gigabits    []float64 `json:"gigabits"`     // received
	CPU         []float64 `json:"cpu_per_gbps"` // processors busy for each Gb/s, both nodes together
	PingMS      float64   `json:"ping_ms"`      // average round trip
}

// comparison puts what was measured beside what report R0 printed: its M3 to
// M5. Its runs took 10 s, which makes the gigabits.
func (r Result) comparison() bench.Comparison {
	path := func(name string, w Way) bench.Way {
		return bench.Way{Name: name, Gbps: w.Gbps, Retransmits: w.Retransmits, Gigabits: w.Gigabits, CPU: w.CPU, PingMS: w.PingMS}
	}
	return bench.Comparison{
		Slow: path("overlay", r.Overlay), Fast: path("VF", r.VF),
		Source:  "report R0 printed, on XL710 NICs of 10 Gb/s",
		OldSlow: bench.Printed{Name: "R0 Calico", Gbps: 4.59, Retransmits: 15580, Gigabits: 45.9},
		OldFast: bench.Printed{Name: "R0 VF", Gbps: 9.42, Retransmits: 25, Gigabits: 94.2, PingMS: 0.212},
	}
}

// text is the report for people, in at most 100 columns.
func (r Result) text(l bench.Look) string {
	var b strings.Builder
	b.WriteString(r.comparison().Text(l))
	fmt.Fprintf(&b, "\nattach  p50 %.0f ms, p99 %.0f ms; detach  p50 %.0f ms, p99 %.0f ms (%d each, one after the other)\n",
		r.Attach.P50, r.Attach.P99, r.Detach.P50, r.Detach.P99, attachments)
	fmt.Fprintf(&b, "VFs     %d made, %d at their baseline afterwards, %d leaked\n", r.VFsCreated, r.VFsCreated-r.Leaked, r.Leaked)
	b.WriteString(machines(r.Accel, r.WhyNotKVM))
	return b.String()
}

// chart is the comparison as a picture, in SVG.
func (r Result) chart() []byte { return []byte(r.comparison().SVG()) }

// machines says what the figures are worth.
func machines(accel, whyNotKVM string) string {
	if accel == "kvm" {
		return "run by KVM, with an emulated NIC (igb): compare the ways with each other, not with hardware.\n"
	}
	return "run by TCG, which emulates the processor in software: absolute speeds mean nothing, the ratio of the\n" +
		"two ways within this run does. Why not by KVM:\n" + wrapped(whyNotKVM, 96)
}

// wrapped breaks s into indented lines of at most width, at spaces and, where
// there is none, anywhere.
func wrapped(s string, width int) string {
	var b strings.Builder
	line := ""
	for _, word := range strings.Fields(s) {
		for line != "" && len(line)+1+len(word) > width {
			b.WriteString("  " + line + "\n")
			line = ""
		}
		for len(word) > width {
			b.WriteString("  " + word[:width] + "\n")
			word = word[width:]
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return b.String() + "  " + line + "\n"
}
