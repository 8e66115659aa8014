package report

import (
	"strings"
	"unicode/utf8"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/excerpt"
)

// wide is how many columns a text has at most: what an issue shows unbroken.
const wide = 100

// table is aligned text. A head that begins with ">" is of numbers, which stand to
// the right. Of what does not fit, the widest column gives.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(b *strings.Builder) {
	if len(t.rows) == 0 {
		return
	}
	heads := make([]string, len(t.head))
	for i, h := range t.head {
		heads[i] = strings.TrimPrefix(h, ">")
	}
	lines := [][]string{heads}
	for _, row := range t.rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = excerpt.Clean(c)
		}
		lines = append(lines, cells)
	}
	widths := fit(lines)
	for _, cells := range lines {
		var line strings.Builder
		for i, c := range cells {
			if i == 0 {
				c = shorten(c, widths[i])
			}
			c = cut(c, widths[i])
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if strings.HasPrefix(t.head[i], ">") {
				line.WriteString(pad + c)
			} else {
				line.WriteString(c + pad)
			}
			line.WriteString("  ")
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// fit returns widths of columns that keep within wide.
func fit(lines [][]string) []int {
	widths := make([]int, len(lines[0]))
	for _, cells := range lines {
		for i, c := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	for {
		total, widest := 2*(len(widths)-1), 0
		for i, w := range widths {
			total += w
			if w > widths[widest] {
				widest = i
			}
		}
		if total <= wide || widths[widest] <= 4 {
			return widths
		}
		widths[widest]--
	}
}

// shorten takes of a name's middle what does not fit: names of one table begin alike and
// end with what sets them apart, such as the size.
func shorten(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	front := max(0, width-2) / 3
	return string(r[:front]) + ".." + string(r[len(r)-(max(2, width)-2-front):])
}

func cut(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:width-2]) + ".."
}

// paragraph breaks foreign text into lines that keep within wide, the first after
// lead and the others indented by as much.
func paragraph(b *strings.Builder, lead, s string) {
	room := wide - utf8.RuneCountInString(lead)
	line := ""
	flush := func() {
		b.WriteString(lead + line + "\n")
		lead, line = strings.Repeat(" ", utf8.RuneCountInString(lead)), ""
	}
	for _, word := range strings.Fields(excerpt.Clean(s)) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > room {
			flush()
		}
		for runes := []rune(word); len(runes) > room; runes = []rune(word) {
			line, word = string(runes[:room]), string(runes[room:])
			flush()
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	flush()
}

// section is a heading with a line for each of what is below it; without any it
// writes nothing.
func section(b *strings.Builder, look bench.Look, head string, lines []string) {
	if len(lines) == 0 {
		return
	}
	b.WriteString("\n" + look.Bold(head) + "\n")
	for _, l := range lines {
		paragraph(b, "- ", l)
	}
}
