package screen

import (
	"cmp"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// Column is one column of a table.
type Column struct {
	Head  string
	Right bool // numbers
	// Least is the width to which the column may be cut when the table is too wide. 0 means that it
	// is not cut, for text that people copy.
	Least int
	// Shorten cuts cells in their middle, so that different ones stay different (ShortenAll).
	Shorten bool
}

// Cell is one place of a row.
type Cell struct {
	Text  string
	Style Style
	// Painted is the text with colours of its own, for cells that are not cut.
	Painted string
}

// Table collects rows and writes them aligned.
type Table struct {
	Columns []Column
	Rows    [][]Cell
	Indent  int
}

// NewTable returns a table without rows. A column whose head begins with ">" has numbers, which are
// aligned to the right. In a narrow table the widest column is cut; the first column has names.
func NewTable(heads ...string) *Table {
	t := &Table{}
	for i, h := range heads {
		head, right := strings.CutPrefix(h, ">")
		t.Columns = append(t.Columns, Column{Head: head, Right: right, Least: 1, Shorten: i == 0})
	}
	return t
}

// Add adds a row, with a cell for each column.
func (t *Table) Add(cells ...Cell) { t.Rows = append(t.Rows, cells) }

// Words makes plain cells; a cell of an empty text is a dash.
func Words(texts ...string) []Cell {
	cells := make([]Cell, len(texts))
	for i, s := range texts {
		cells[i] = Cell{Text: cmp.Or(s, "-")}
	}
	return cells
}

// WriteBelow appends an empty line and the table to b.
func (t *Table) WriteBelow(b *strings.Builder, l Look) {
	if len(t.Rows) > 0 && b.Len() > 0 {
		b.WriteByte('\n')
	}
	t.Write(b, l)
}

// Write appends the table to b. Without rows it writes nothing. If even its cut columns exceed the
// width, it writes one block of lines for each row.
func (t *Table) Write(b *strings.Builder, l Look) {
	if len(t.Rows) == 0 {
		return
	}
	widths := t.fitWidths(l)
	if t.exceeds(widths, l) {
		t.writeBlocks(b, l)
		return
	}
	head := make([]Cell, len(t.Columns))
	for i, c := range t.Columns {
		head[i] = Cell{Text: c.Head, Style: Bold}
	}
	t.writeLine(b, l, widths, head)
	for _, row := range t.shortenNames(widths) {
		t.writeLine(b, l, widths, row)
	}
}

// shortenNames returns the rows with the cells of columns of names cut to their widths.
func (t *Table) shortenNames(widths []int) [][]Cell {
	rows := make([][]Cell, len(t.Rows))
	for i, row := range t.Rows {
		rows[i] = slices.Clone(row)
	}
	for c, column := range t.Columns {
		if !column.Shorten {
			continue
		}
		var names []string
		for _, row := range rows {
			names = append(names, excerpt.Clean(row[c].Text))
		}
		for i, short := range ShortenAll(names, widths[c]) {
			if cell := &rows[i][c]; short != names[i] {
				cell.Text, cell.Painted = short, ""
			}
		}
	}
	return rows
}

// Fits reports whether the table needs no cut.
func (t *Table) Fits(l Look) bool {
	widths := t.fitWidths(l)
	return slices.Equal(widths, t.fitWidths(Look{})) && !t.exceeds(widths, l)
}

// exceeds reports whether columns of these widths do not fit.
func (t *Table) exceeds(widths []int, l Look) bool {
	total := t.Indent + gap*(len(widths)-1)
	for _, w := range widths {
		total += w
	}
	return l.Width > 0 && !l.Wide && total > l.Width
}

// writeBlocks writes each row as a block: the first cell, and below it a line for each other cell
// with the head of its column. It cuts nothing, so that people can copy each text.
func (t *Table) writeBlocks(b *strings.Builder, l Look) {
	heads := 0
	for _, c := range t.Columns[1:] {
		heads = max(heads, Columns(c.Head))
	}
	lead := strings.Repeat(" ", t.Indent)
	for _, row := range t.Rows {
		for _, line := range WrapAll(excerpt.Clean(row[0].Text), l.Width-t.Indent) {
			b.WriteString(lead + l.Paint(line, cmp.Or(row[0].Style, Bold)) + "\n")
		}
		for i, c := range row[1:] {
			writeField(b, l, lead+"  ", t.Columns[i+1].Head, heads, c)
		}
	}
}

// writeField writes a cell after the head of its column, which gets width columns.
func writeField(b *strings.Builder, l Look, lead, head string, width int, c Cell) {
	text := excerpt.Clean(c.Text)
	if text == "" {
		return
	}
	if width > 0 {
		head += strings.Repeat(" ", width-Columns(head)+gap)
	}
	lines := WrapAll(text, max(1, l.Width-Columns(lead+head)))
	for i, line := range lines {
		if i > 0 {
			head = strings.Repeat(" ", Columns(head))
		}
		if line = l.Paint(line, c.Style); c.Painted != "" && len(lines) == 1 {
			line = c.Painted
		}
		b.WriteString(lead + head + line + "\n")
	}
}

const gap = 2

// fitWidths fits the columns into the width: it cuts the widest first, each down
// to its least, and below that only when there is no other way.
func (t *Table) fitWidths(l Look) []int {
	widths := make([]int, len(t.Columns))
	total := t.Indent + gap*(len(widths)-1)
	for i, c := range t.Columns {
		widths[i] = Columns(c.Head)
		for _, row := range t.Rows {
			widths[i] = max(widths[i], Columns(excerpt.Clean(row[i].Text)))
		}
		total += widths[i]
	}
	if l.Width <= 0 || l.Wide {
		return widths
	}
	for _, hard := range []bool{false, true} {
		for total > l.Width {
			i := t.findWidest(widths, hard)
			if i < 0 {
				break
			}
			widths[i]--
			total--
		}
	}
	return widths
}

// findWidest returns the widest column that can still be cut, or -1.
func (t *Table) findWidest(widths []int, hard bool) int {
	widest := -1
	for i, c := range t.Columns {
		least := max(c.Least, Columns(c.Head))
		if hard {
			least = Columns(c.Head)
		}
		if c.Least > 0 && widths[i] > least && (widest < 0 || widths[i] > widths[widest]) {
			widest = i
		}
	}
	return widest
}

func (t *Table) writeLine(b *strings.Builder, l Look, widths []int, row []Cell) {
	var line strings.Builder
	pending := t.Indent // spaces that are owed, written when something follows
	for i, c := range row {
		s := t.Columns[i].cutText(excerpt.Clean(c.Text), widths[i], l)
		pad := widths[i] - Columns(s)
		if t.Columns[i].Right {
			pending += pad
		}
		if s != "" {
			line.WriteString(strings.Repeat(" ", pending))
			if c.Painted != "" && s == c.Text {
				line.WriteString(c.Painted)
			} else {
				line.WriteString(l.Paint(s, c.Style))
			}
			pending = 0
		}
		if !t.Columns[i].Right {
			pending += pad
		}
		pending += gap
	}
	b.WriteString(line.String())
	b.WriteByte('\n')
}

// cutText shortens s to width with an ellipsis.
func (c Column) cutText(s string, width int, l Look) string {
	if Columns(s) <= width {
		return s
	}
	dots := ".."
	if l.Unicode {
		dots = "…"
	}
	return strings.TrimRight(string([]rune(s)[:max(0, width-Columns(dots))]), " ") + dots
}
