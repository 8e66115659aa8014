package report

import (
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/bench"
)

// table is a table of the page. Its columns are few kinds: texts, and numbers to the right.
type table struct {
	Title  string
	Class  string // t1: how the page's style knows its heads
	Heads  []head
	Parts  []tablePart
	Folded bool // until the reader opens it
}

// head is the head of a column.
type head struct {
	Text  string
	Right bool
}

// tablePart has the rows of one question, or all rows.
type tablePart struct {
	Title string
	Rows  []tableRow
}

// tableRow is a row of a table. Its first cell is the name of an arm, if Arm is not -1.
type tableRow struct {
	Arm   int
	Name  string // the arm's full name, where the first cell has another one
	Cells []string
}

// makeTable returns a table without rows; a head that begins with ">" is that of numbers.
func makeTable(title string, heads ...string) table {
	t := table{Title: title}
	for _, h := range heads {
		text, right := strings.CutPrefix(h, ">")
		t.Heads = append(t.Heads, head{text, right})
	}
	return t
}

// add adds a row to the table's last part.
func (t *table) add(arm int, cells ...string) {
	if len(t.Parts) == 0 {
		t.Parts = []tablePart{{}}
	}
	p := &t.Parts[len(t.Parts)-1]
	p.Rows = append(p.Rows, tableRow{Arm: arm, Cells: cells})
}

// listTables returns the tables of the page that have rows. The first has all arms, by question.
func (v view) listTables() []table {
	r := v.Result
	all := []table{
		tabulateArms(v.rows, v.questions), tabulateShares(r), tabulateRelays(r), tabulateTrips(r), tabulateLoads(r), tabulateCounts(r),
		tabulateProcessors(r), tabulateQueues(r), tabulateLimits(r), tabulatePrinted(r),
	}
	var out []table
	for i, t := range all {
		if len(t.Parts) == 0 {
			continue
		}
		t.Class, t.Folded = fmt.Sprintf("t%d", len(out)+1), i > 0
		out = append(out, t)
	}
	return out
}

func tabulateArms(list []row, questions []question) table {
	t := makeTable("All arms", "Arm", ">Median", ">95 % interval", ">Runs", ">Of the wire", ">CPU", "Against")
	for _, q := range questions {
		p := tablePart{Title: q.Title}
		for _, i := range q.Arms {
			l := list[i]
			against := strings.Join(l.Against, "; ")
			if against == "" {
				against = "-"
			}
			p.Rows = append(p.Rows, tableRow{i, l.Arm, []string{l.Within, l.formatValue(), formatInterval(l.Middle), fmt.Sprint(l.N), l.formatPart(), l.formatCost(), against}})
		}
		t.Parts = append(t.Parts, p)
	}
	return t
}

func tabulateShares(r bench.Result) table {
	t := makeTable("At once", "Path", ">Median", ">Of the total")
	for _, s := range listShares(r) {
		p := tablePart{Title: s.Arm + ": total " + s.Total + ", least : most " + s.Fairness}
		for _, w := range s.Ways {
			p.Rows = append(p.Rows, tableRow{Arm: -1, Cells: []string{w.Way, w.Value, w.Part}})
		}
		t.Parts = append(t.Parts, p)
	}
	return t
}

func tabulateRelays(r bench.Result) table {
	t := makeTable("In the middle", "Arm", "Where", ">Received", ">Sent", ">Busiest processor", ">Its CPU")
	for _, l := range listRelays(r) {
		t.add(-1, l.Arm, l.Where, l.Received, l.Sent, l.Busiest, l.CPU)
	}
	return t
}

func tabulateTrips(r bench.Result) table {
	heads := []string{"Arm, us"}
	for _, n := range tripNames() {
		heads = append(heads, ">"+n)
	}
	t := makeTable("Round trips", append(heads, ">Of", ">Lost")...)
	for _, l := range listTrips(r) {
		t.add(-1, append(append([]string{l.Arm}, l.Points...), l.N, l.Lost)...)
	}
	return t
}

func tabulateLoads(r bench.Result) table {
	t := makeTable("TCP beside the questions", "Arm", "Part of the path's throughput", ">Asked", ">Carried", ">Retransmits")
	for _, l := range listLoads(r) {
		t.add(-1, l.Arm, l.Share, l.Asked, l.Carried, l.Retransmits)
	}
	return t
}

func tabulateCounts(r bench.Result) table {
	t := makeTable("Counted in a run", "Arm", ">Retransmits", ">Sent", ">Lost", ">Congestion window")
	for _, l := range countArms(r) {
		t.add(-1, l.Arm, l.Retransmits, l.Sent, l.Lost, l.Cwnd)
	}
	return t
}

func tabulateProcessors(r bench.Result) table {
	t := makeTable("Processors busy", "Arm", ">Gross", ">Before", ">Net", ">Engines", ">Interrupts", ">Others", ">Unseen", "Others are")
	for _, l := range listProcessors(r) {
		t.add(-1, l.Arm, l.Gross, l.Before, l.Net, l.Parts, l.Interrupts, l.Others, l.Unseen, l.Names)
	}
	return t
}

func tabulateQueues(r bench.Result) table {
	t := makeTable("Receive queues", "Arm", "Receiver", "Hashed", ">Queues", "Split")
	for _, l := range listQueues(r) {
		t.add(-1, l.Arm, l.Where, l.Hash, fmt.Sprint(l.Queues), l.Split)
	}
	return t
}

func tabulateLimits(r bench.Result) table {
	t := makeTable("Limits", "Arm", "Limit", "Where", "Evidence", ">Runs")
	for _, l := range listLimits(r) {
		t.add(-1, l.Arm, l.What, l.Where, l.Evidence, fmt.Sprintf("%d of %d", l.Runs, l.Of))
	}
	return t
}

func tabulatePrinted(r bench.Result) table {
	t := makeTable("Beside what reports printed", "Report", ">There", "Arm", ">Here", ">Here : there")
	for _, l := range listPrinted(r) {
		t.add(-1, l.Name, l.Printed, l.Arm, l.Here, l.Ratio)
	}
	return t
}
