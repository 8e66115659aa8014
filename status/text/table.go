package text

import (
	"strings"
	"unicode/utf8"

	"github.com/culvert-net/culvert/excerpt"
)

// column is one column of a table.
type column struct {
	head  string
	right bool // numbers
	// least is how narrow the column may be cut when the table is too wide; 0
	// is not at all, for what people copy.
	least int
}

type cell struct {
	text  string
	style style
	// painted is the text with colours of its own, for cells that are not cut.
	painted string
}

// table collects rows and writes them aligned.
type table struct {
	columns []column
	rows    [][]cell
	indent  int
}

func (t *table) row(cells ...cell) { t.rows = append(t.rows, cells) }

// words makes a row of plain cells.
func words(texts ...string) []cell {
	cells := make([]cell, len(texts))
	for i, s := range texts {
		cells[i] = cell{text: orDash(s)}
	}
	return cells
}

// write appends the table to b. Without rows it writes nothing.
func (t *table) write(b *strings.Builder, o Options) {
	if len(t.rows) == 0 {
		return
	}
	widths := t.widths(o)
	head := make([]cell, len(t.columns))
	for i, c := range t.columns {
		head[i] = cell{text: c.head, style: bold}
	}
	t.line(b, o, widths, head)
	for _, row := range t.rows {
		t.line(b, o, widths, row)
	}
}

const gap = 2

// widths fits the columns into the width: it cuts the widest first, each down
// to its least, and below that only when there is no other way.
func (t *table) widths(o Options) []int {
	widths := make([]int, len(t.columns))
	total := t.indent + gap*(len(widths)-1)
	for i, c := range t.columns {
		widths[i] = columns(c.head)
		for _, row := range t.rows {
			widths[i] = max(widths[i], columns(excerpt.Clean(row[i].text)))
		}
		total += widths[i]
	}
	if o.Width <= 0 || o.Wide {
		return widths
	}
	for _, hard := range []bool{false, true} {
		for total > o.Width {
			i := t.widest(widths, hard)
			if i < 0 {
				break
			}
			widths[i]--
			total--
		}
	}
	return widths
}

// widest returns the widest column that can still be cut, or -1.
func (t *table) widest(widths []int, hard bool) int {
	widest := -1
	for i, c := range t.columns {
		least := max(c.least, columns(c.head))
		if hard {
			least = columns(c.head)
		}
		if c.least > 0 && widths[i] > least && (widest < 0 || widths[i] > widths[widest]) {
			widest = i
		}
	}
	return widest
}

func (t *table) line(b *strings.Builder, o Options, widths []int, row []cell) {
	var line strings.Builder
	pending := t.indent // spaces that are owed, written when something follows
	for i, c := range row {
		s := cut(excerpt.Clean(c.text), widths[i], o)
		pad := widths[i] - columns(s)
		if t.columns[i].right {
			pending += pad
		}
		if s != "" {
			line.WriteString(strings.Repeat(" ", pending))
			if c.painted != "" && s == c.text {
				line.WriteString(c.painted)
			} else {
				line.WriteString(o.paint(s, c.style))
			}
			pending = 0
		}
		if !t.columns[i].right {
			pending += pad
		}
		pending += gap
	}
	b.WriteString(line.String())
	b.WriteByte('\n')
}

// columns is how wide s is on a terminal. Names in the kernel and in
// Kubernetes are of single-width characters.
func columns(s string) int { return utf8.RuneCountInString(s) }

// cut shortens s to width with an ellipsis.
func cut(s string, width int, o Options) string {
	if columns(s) <= width {
		return s
	}
	dots := o.ellipsis()
	runes := []rune(s)
	return strings.TrimRight(string(runes[:max(0, width-columns(dots))]), " ") + dots
}
