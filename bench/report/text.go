package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/screen"
)

// Text is the report for a terminal, or to paste into an issue, in at most 100 columns.
// The result has to be valid.
func Text(r bench.Result, look screen.Look) string {
	cares := listCares(r)
	r = r.WithoutFalseWires()
	var b strings.Builder
	writeParagraph(&b, "", Sentence(r))
	b.WriteString("\n")
	writeParagraph(&b, "", describeResult(r))
	if said := describeEmulation(r); said != "" {
		writeParagraph(&b, "", said)
	}
	list := listRows(r)
	armTable(&b, list)
	shareTable(&b, listShares(r))
	writeTable(&b, relayTable(listRelays(r)))
	drawBars(&b, look, list)
	writeTable(&b, tripTable(listTrips(r)))
	writeTable(&b, loadTable(listLoads(r)))
	writeTable(&b, countTable(countArms(r)))
	writeTable(&b, processorTable(listProcessors(r)))
	writeTable(&b, queueTable(listQueues(r)))
	var held []string
	for _, l := range listLimits(r) {
		held = append(held, l.String())
	}
	writeSection(&b, look, "what limits", held)
	besideTable(&b, listPrinted(r))
	writeSection(&b, look, "take care", cares)
	writeSection(&b, look, "void runs", listVoids(r))
	writeSection(&b, look, "how the machines differ", bench.Apart(r))
	var ways []string
	for _, p := range listPlaces(r) {
		ways = append(ways, fmt.Sprintf("%s: %s%s to %s (%s)", p.Way, describeEnd(p.From), describeRelay(p.Via), describeEnd(p.To), strings.Join(p.Arms, "; ")))
	}
	writeSection(&b, look, "paths", ways)
	var machines []string
	for _, m := range r.Machines {
		machines = append(machines, m.Name+": "+describeMachine(m))
		for _, i := range m.Interfaces {
			machines = append(machines, m.Name+" "+describeCard(i))
		}
	}
	writeSection(&b, look, "machines", machines)
	return b.String()
}

// Brief is the part of [Text] that compares: the sentence, the table of the arms, their bars, and
// the printed figures.
func Brief(r bench.Result, look screen.Look) string {
	r = r.WithoutFalseWires()
	var b strings.Builder
	writeParagraph(&b, "", Sentence(r))
	list := listRows(r)
	armTable(&b, list)
	drawBars(&b, look, list)
	besideTable(&b, listPrinted(r))
	return b.String()
}

// String names the limit of an arm.
func (l limit) String() string {
	where := ""
	if l.Where != "" {
		where = ", " + l.Where
	}
	return fmt.Sprintf("%s: %s%s: %s (%d of %d runs)", l.Arm, l.What, where, l.Evidence, l.Runs, l.Of)
}

// armTable writes the arms with their comparisons. If the comparisons have no room beside the
// figures, they are a table of their own.
func armTable(b *strings.Builder, list []row) {
	both := screen.NewTable("ARM", ">MEDIAN", ">95 % INTERVAL", ">N", ">OF WIRE", ">CPU", "AGAINST")
	figures := screen.NewTable("ARM", ">MEDIAN", ">95 % INTERVAL", ">N", ">OF WIRE", ">CPU")
	against := screen.NewTable("ARM", "AGAINST")
	against.Columns[1].Least = 60 // names are cut first
	for _, r := range list {
		cells := []string{r.Arm, r.formatValue(), formatInterval(r.Middle), fmt.Sprint(r.N), r.formatPart(), r.formatCost()}
		figures.Add(screen.Words(cells...)...)
		both.Add(screen.Words(append(cells, strings.Join(r.Against, "; "))...)...)
		for _, s := range r.Against {
			against.Add(screen.Words(r.Arm, s)...)
		}
	}
	if both.Fits(screen.Look{Width: wide}) {
		writeTable(b, both)
		return
	}
	writeTable(b, figures)
	writeTable(b, against)
}

func (r row) formatValue() string {
	if math.IsNaN(r.Middle.Value) {
		return "-"
	}
	return bench.Number(r.Middle.Value) + " " + r.Metric.Unit
}

func (r row) formatPart() string {
	if !(r.Ceiling > 0) || math.IsNaN(r.Middle.Value) {
		return "-"
	}
	return formatPercent(r.Middle.Value / r.Ceiling)
}

func (r row) formatCost() string {
	switch {
	case math.IsNaN(r.CPU):
		return "-"
	case r.CPUUnit == "ns":
		return bench.Number(r.CPU) + " ns/packet"
	}
	return bench.Number(r.CPU) + " %/Gb/s"
}

// drawBars draws the arms of each metric to one scale.
func drawBars(b *strings.Builder, look screen.Look, list []row) {
	for _, group := range byMetric(list) {
		most, name := 0.0, 0
		for _, r := range group {
			most = max(most, r.Middle.Value)
			name = max(name, min(24, screen.Columns(excerpt.Clean(r.Arm))))
		}
		b.WriteString("\n" + look.Paint(group[0].Metric.Title, screen.Bold) + "\n")
		short := screen.ShortenAll(names(group), name)
		for i, r := range group {
			drawn := look.Bar(r.Middle.Value/most, 46)
			label := short[i]
			fmt.Fprintf(b, "  %s%s  %s%s  %s\n", label, strings.Repeat(" ", name-screen.Columns(label)),
				drawn, strings.Repeat(" ", 46-screen.Columns(drawn)), r.formatValue())
		}
	}
}

// byMetric groups the arms that have values by their metric.
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

func besideTable(b *strings.Builder, list []beside) {
	t := screen.NewTable("PRINTED BY", ">THERE", "ARM", ">HERE", ">HERE : THERE")
	for _, p := range list {
		t.Add(screen.Words(p.Name, p.Printed, p.Arm, p.Here, p.Ratio)...)
	}
	writeTable(b, t)
}
