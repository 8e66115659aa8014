package demo

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/report"
	"github.com/culvert-net/culvert/internal/screen"
)

// Result is demo.json.
type Result struct {
	VF         Way               `json:"vf"`
	Overlay    Way               `json:"overlay"`
	Attach     bench.Percentiles `json:"attach_ms"` // from calling the plugin to its result
	Detach     bench.Percentiles `json:"detach_ms,omitzero"`
	Bond       Bond              `json:"bond,omitzero"`
	VFsCreated int               `json:"vfs_created"`
	Leaked     int               `json:"leaked"` // VFs that are not as they were
	Accel      string            `json:"accel"`  // tcg or kvm
	WhyNotKVM  string            `json:"why_not_kvm,omitempty"`
	Problems   []string          `json:"problems,omitempty"`

	measured bench.Result
}

// Way has the measurements over one path; its lists have one entry for each run.
type Way struct {
	Gbps        []float64 `json:"gbps"`
	Retransmits []float64 `json:"retransmits"`
	Gigabits    []float64 `json:"gigabits"`     // received
	CPU         []float64 `json:"cpu_per_gbps"` // processors busy for each Gb/s, both nodes together
	PingMS      float64   `json:"ping_ms"`      // average round trip
}

// takeMeasured sorts the figures of each way into the result.
func (r *Result) takeMeasured(measured bench.Result) {
	r.measured, r.Overlay, r.VF = measured, Way{}, Way{}
	for i, arm := range measured.Arms {
		way := map[string]*Way{"overlay": &r.Overlay, "VF": &r.VF}[arm.Path.Network]
		if way == nil {
			continue
		}
		pings, sum := 0, 0.0
		for _, run := range measured.Counted(i) {
			if run.Delays != nil {
				pings, sum = pings+1, sum+run.Delays.Mean/1000
				continue
			}
			way.Gbps = append(way.Gbps, run.Gbps)
			way.Gigabits = append(way.Gigabits, float64(run.Bytes)*8/1e9)
			if cpu := arm.Cost(run).PerGbps / 100; !math.IsNaN(cpu) { // of all processors, not in percent of one
				way.CPU = append(way.CPU, cpu)
			}
			if run.Retransmits != nil {
				way.Retransmits = append(way.Retransmits, float64(*run.Retransmits))
			}
		}
		if pings > 0 {
			way.PingMS = sum / float64(pings)
		}
	}
}

// findMissing names a way over which nothing was measured, or returns "" if both have figures.
func (r Result) findMissing() string {
	for _, w := range []struct {
		name string
		Way
	}{{"overlay", r.Overlay}, {"VF", r.VF}} {
		if len(w.Gbps) == 0 || w.PingMS == 0 {
			return fmt.Sprintf("the %s has %d runs of iperf3 that count, and round trips of %.2f ms", w.name, len(w.Gbps), w.PingMS)
		}
	}
	return ""
}

// formatText returns the report for people, in at most 100 columns.
func (r Result) formatText(l screen.Look) string {
	var b strings.Builder
	b.WriteString(report.Brief(r.measured, l))
	fmt.Fprintf(&b, "\nattach  %s; detach  %s (one after the other)\n", r.Attach, r.Detach)
	b.WriteString(r.Bond.String())
	fmt.Fprintf(&b, "VFs     %d made, %d at their baseline afterwards, %d leaked\n", r.VFsCreated, r.VFsCreated-r.Leaked, r.Leaked)
	b.WriteString(describeMachines(r.Accel, r.WhyNotKVM))
	return b.String()
}

// formatPage returns the whole report of the measurement, in HTML, and the file to which it links.
func (r Result) formatPage(data string) (page, measurements []byte, err error) {
	var b, raw bytes.Buffer
	err = errors.Join(report.HTML(&b, r.measured, data), report.Data(&raw, r.measured))
	return b.Bytes(), raw.Bytes(), err
}

// describeMachines says how the nodes are emulated, and so how far the figures can be relied on.
func describeMachines(accel, whyNotKVM string) string {
	if accel == "kvm" {
		return "run by KVM, with an emulated NIC (igb): compare the ways with each other, not with hardware.\n"
	}
	return "run by TCG, which emulates the processor in software: absolute speeds mean nothing, the ratio of the\n" +
		"two ways within this run does. Why not by KVM:\n" + indentAll(whyNotKVM)
}

// indentAll breaks s into indented lines that keep within 100 columns.
func indentAll(s string) string {
	return indentLines(strings.Join(screen.WrapAll(s, 96), "\n")) + "\n"
}
