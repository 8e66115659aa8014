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
	b := newScreenText(look)
	v := makeView(r)
	r = v.Result
	writeParagraph(b, "", v.summarize().String())
	b.WriteString("\n")
	writeParagraph(b, "", describeResult(r))
	if said := describeEmulation(r); said != "" {
		writeParagraph(b, "", said)
	}
	v.writeQuestions(b)
	shareTable(b, listShares(r))
	writeTable(b, relayTable(listRelays(r)))
	writeTable(b, tripTable(listTrips(r)))
	writeTable(b, loadTable(listLoads(r)))
	writeTable(b, countTable(countArms(r)))
	writeTable(b, processorTable(listProcessors(r)))
	writeTable(b, queueTable(listQueues(r)))
	var held []string
	for _, l := range listLimits(r) {
		held = append(held, l.String())
	}
	writeSection(b, "what limits", held)
	besideTable(b, listPrinted(r))
	writeSection(b, "take care", v.cares)
	writeSection(b, "void runs", listVoids(r))
	writeSection(b, "how the machines differ", bench.Apart(r))
	var ways []string
	for _, p := range listPlaces(r) {
		ways = append(ways, fmt.Sprintf("%s: %s%s to %s (%s)", p.Way, describeEnd(p.From), describeRelay(p.Via), describeEnd(p.To), strings.Join(p.Asked, "; ")))
	}
	writeSection(b, "paths", ways)
	var machines []string
	for _, m := range r.Machines {
		machines = append(machines, m.Name+": "+describeMachine(m))
		for _, i := range m.Interfaces {
			machines = append(machines, m.Name+" "+describeCard(i))
		}
	}
	writeSection(b, "machines", machines)
	return b.String()
}

// Brief is the part of [Text] that compares: the sentence, the tables of the arms, their bars, and
// the printed figures.
func Brief(r bench.Result, look screen.Look) string {
	b := newScreenText(look)
	v := makeView(r)
	writeParagraph(b, "", v.summarize().String())
	v.writeQuestions(b)
	besideTable(b, listPrinted(v.Result))
	return b.String()
}

// writeQuestions writes each question with the table and the bars of its arms.
func (v view) writeQuestions(b *screenText) {
	for _, q := range v.questions {
		b.WriteString("\n")
		lines := screen.WrapAll(excerpt.Clean(q.Heading()), b.look.Width)
		for _, l := range lines {
			b.WriteString(b.look.Paint(l, screen.Bold) + "\n")
		}
		var asked []row
		for _, i := range q.Arms {
			asked = append(asked, v.rows[i])
		}
		armTable(b, asked)
		drawBars(b, v.barRows(q))
		for _, s := range v.describeUnenforced(q) {
			b.WriteString("\n")
			writeParagraph(b, "", s)
		}
	}
}

// String names the limit of an arm.
func (l limit) String() string {
	where := ""
	if l.Where != "" {
		where = ", " + l.Where
	}
	return fmt.Sprintf("%s: %s%s: %s (%d of %d runs)", l.Arm, l.What, where, l.Evidence, l.Runs, l.Of)
}

// armTable writes arms with their comparisons. If the comparisons have no room beside the figures, they
// are a table of their own.
func armTable(b *screenText, list []row) {
	both := screen.NewTable("ARM", ">MEDIAN", ">95 % INTERVAL", ">N", ">OF WIRE", ">CPU", "AGAINST")
	figures := screen.NewTable("ARM", ">MEDIAN", ">95 % INTERVAL", ">N", ">OF WIRE", ">CPU")
	against := screen.NewTable("ARM", "AGAINST")
	against.Columns[1].Least = 60 // names are cut first
	for _, r := range list {
		cells := []string{r.Within, r.formatValue(), formatInterval(r.Middle), fmt.Sprint(r.N), r.formatPart(), r.formatCost()}
		figures.Add(screen.Words(cells...)...)
		both.Add(screen.Words(append(cells, strings.Join(r.Against, "; "))...)...)
		for _, s := range r.Against {
			against.Add(screen.Words(r.Within, s)...)
		}
	}
	if len(against.Rows) > 0 && both.Fits(b.uncoloured()) {
		both.Write(&b.Builder, b.uncoloured())
		return
	}
	figures.Write(&b.Builder, b.uncoloured())
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
	if math.IsNaN(r.CPU) {
		return "-"
	}
	return bench.Number(r.CPU) + " " + costUnit(r.CPUUnit)
}

// costUnit returns the whole unit of the metric "cpu": its own is for each Gb/s, or packet.
func costUnit(unit string) string {
	if unit == "ns" {
		return "ns/packet"
	}
	return "%/Gb/s"
}

// drawBars draws arms to one scale for each metric.
func drawBars(b *screenText, list []row) {
	for _, group := range byMetric(list) {
		most, name := 0.0, 0
		for _, r := range group {
			most = max(most, r.Middle.Value)
			name = max(name, min(24, b.look.Width/3, screen.Columns(excerpt.Clean(r.Within))))
		}
		const value = 20 // columns of a value, and of the spaces around it and the name
		bar := min(46, b.look.Width-name-value)
		b.WriteString("\n" + b.look.Paint(group[0].Metric.Title, screen.Bold) + "\n")
		short := screen.ShortenAll(names(group), name)
		for i, r := range group {
			drawn := b.look.Bar(r.Middle.Value/most, bar)
			label := short[i]
			fmt.Fprintf(b, "  %s%s  %s%s  %s\n", label, strings.Repeat(" ", name-screen.Columns(label)),
				drawn, strings.Repeat(" ", bar-screen.Columns(drawn)), r.formatValue())
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

func besideTable(b *screenText, list []beside) {
	t := screen.NewTable("PRINTED BY", ">THERE", "ARM", ">HERE", ">HERE : THERE")
	for _, p := range list {
		t.Add(screen.Words(p.Name, p.Printed, p.Arm, p.Here, p.Ratio)...)
	}
	writeTable(b, t)
}
