package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/excerpt"
	"github.com/culvert-net/culvert/screen"
)

// Text is the report for a terminal, or to paste into an issue, in at most 100 columns.
// The result has to be valid.
func Text(r bench.Result, look screen.Look) string {
	var b strings.Builder
	paragraph(&b, "", Sentence(r))
	b.WriteString("\n")
	paragraph(&b, "", about(r))
	list := rows(r)
	armTable(&b, list)
	shareTable(&b, shares(r))
	write(&b, relayTable(relays(r)))
	bars(&b, look, list)
	delayTable(&b, r)
	var held []string
	for _, l := range limits(r) {
		held = append(held, l.String())
	}
	section(&b, look, "what limits", held)
	besideTable(&b, printed(r))
	section(&b, look, "take care", cares(r))
	section(&b, look, "void runs", voids(r))
	section(&b, look, "how the machines differ", bench.Apart(r))
	var ways []string
	for _, p := range places(r) {
		ways = append(ways, fmt.Sprintf("%s: %s%s to %s (%s)", p.Way, end(p.From), through(p.Via), end(p.To), strings.Join(p.Arms, "; ")))
	}
	section(&b, look, "paths", ways)
	var machines []string
	for _, m := range r.Machines {
		machines = append(machines, m.Name+": "+machine(m))
		for _, i := range m.Interfaces {
			machines = append(machines, m.Name+" "+card(i))
		}
	}
	section(&b, look, "machines", machines)
	return b.String()
}

// Brief is the part of [Text] that compares: the sentence, the table of the arms, their bars, and
// what the reports printed.
func Brief(r bench.Result, look screen.Look) string {
	var b strings.Builder
	paragraph(&b, "", Sentence(r))
	list := rows(r)
	armTable(&b, list)
	bars(&b, look, list)
	besideTable(&b, printed(r))
	return b.String()
}

// String tells what held an arm down.
func (l limit) String() string {
	where := ""
	if l.Where != "" {
		where = ", " + l.Where
	}
	return fmt.Sprintf("%s: %s%s: %s (%d of %d runs)", l.Arm, l.What, where, l.Evidence, l.Runs, l.Of)
}

func armTable(b *strings.Builder, list []row) {
	t := screen.NewTable("ARM", ">MEDIAN", ">95 % INTERVAL", ">N", ">OF WIRE", ">CPU", "AGAINST")
	for _, r := range list {
		t.Add(screen.Words(r.Arm, r.value(), between(r.Middle), fmt.Sprint(r.N), r.part(), r.cost(), strings.Join(r.Against, "; "))...)
	}
	write(b, t)
}

func (r row) value() string {
	if math.IsNaN(r.Middle.Value) {
		return "-"
	}
	return bench.Number(r.Middle.Value) + " " + r.Metric.Unit
}

func (r row) part() string {
	if !(r.Ceiling > 0) || math.IsNaN(r.Middle.Value) {
		return "-"
	}
	return percent(r.Middle.Value / r.Ceiling)
}

func (r row) cost() string {
	switch {
	case math.IsNaN(r.CPU):
		return "-"
	case r.CPUUnit == "ns":
		return bench.Number(r.CPU) + " ns/packet"
	}
	return bench.Number(r.CPU) + " %/Gb/s"
}

// bars draws arms of each metric to one scale.
func bars(b *strings.Builder, look screen.Look, list []row) {
	for _, group := range byMetric(list) {
		most, name := 0.0, 0
		for _, r := range group {
			most = max(most, r.Middle.Value)
			name = max(name, min(24, screen.Columns(excerpt.Clean(r.Arm))))
		}
		b.WriteString("\n" + look.Paint(group[0].Metric.Title, screen.Bold) + "\n")
		for _, r := range group {
			drawn := look.Bar(r.Middle.Value/most, 46)
			label := screen.Shorten(excerpt.Clean(r.Arm), name)
			fmt.Fprintf(b, "  %s%s  %s%s  %s\n", label, strings.Repeat(" ", name-screen.Columns(label)),
				drawn, strings.Repeat(" ", 46-screen.Columns(drawn)), r.value())
		}
	}
}

// byMetric groups arms that have values by what they are about.
func byMetric(list []row) [][]row {
	var groups [][]row
next:
	for _, r := range list {
		if math.IsNaN(r.Middle.Value) {
			continue
		}
		for i, g := range groups {
			if g[0].Metric.Name == r.Metric.Name {
				groups[i] = append(g, r)
				continue next
			}
		}
		groups = append(groups, []row{r})
	}
	return groups
}

func delayTable(b *strings.Builder, r bench.Result) {
	t := screen.NewTable("ROUND TRIP, us", ">MIN", ">P50", ">P90", ">P99", ">P99.9", ">MAX", ">LOST")
	for i, arm := range r.Arms {
		d, found := delays(r, i)
		if !found {
			continue
		}
		cells := []string{arm.Name}
		for _, v := range d.points() {
			cells = append(cells, bench.Number(v))
		}
		lost, sent := uint64(0), uint64(0)
		for _, run := range r.Counted(i) {
			lost, sent = lost+run.Lost, sent+run.Sent
		}
		t.Add(screen.Words(append(cells, fmt.Sprintf("%d of %d", lost, sent))...)...)
	}
	write(b, t)
}

// spread is how round trips are spread: medians over the runs of each percentile.
type spread bench.Delays

func (s spread) points() []float64 {
	return []float64{s.Min, s.P50, s.P90, s.P99, s.P999, s.Max}
}

// delays returns the arm's, if it has any.
func delays(r bench.Result, arm int) (s spread, found bool) {
	var all [6][]float64
	for _, run := range r.Counted(arm) {
		if run.Delays == nil {
			continue
		}
		for i, v := range spread(*run.Delays).points() {
			all[i] = append(all[i], v)
		}
	}
	m := func(i int) float64 { return bench.Median(all[i]) }
	return spread{Min: m(0), P50: m(1), P90: m(2), P99: m(3), P999: m(4), Max: m(5)}, len(all[0]) > 0
}

func besideTable(b *strings.Builder, list []beside) {
	t := screen.NewTable("PRINTED BY", ">THERE", "ARM", ">HERE", ">HERE : THERE")
	for _, p := range list {
		t.Add(screen.Words(p.Name, p.Printed, p.Arm, p.Here, p.Ratio)...)
	}
	write(b, t)
}
