package report

import (
	"cmp"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/screen"
)

// wide is the most columns that a text has: an issue shows so many without breaking lines.
const wide = 100

// screenText collects a text for people, whose lines keep within the width of look.
type screenText struct {
	strings.Builder
	look screen.Look
}

// newScreenText returns an empty text. It has at most wide columns, and fewer on a narrow terminal.
func newScreenText(look screen.Look) *screenText {
	look.Width = min(cmp.Or(look.Width, wide), wide)
	return &screenText{look: look}
}

// uncoloured returns the width of the text, without its colours: tables have none.
func (b *screenText) uncoloured() screen.Look { return screen.Look{Width: b.look.Width} }

// writeTable writes a table unless it has no rows, after an empty line if the text has begun.
func writeTable(b *screenText, t *screen.Table) { t.WriteBelow(&b.Builder, b.uncoloured()) }

// writeParagraph breaks foreign text into lines that keep within the width, the first after
// lead and the others indented by as much.
func writeParagraph(b *screenText, lead, s string) {
	for _, line := range screen.WrapAll(excerpt.Clean(s), b.look.Width-screen.Columns(lead)) {
		b.WriteString(lead + line + "\n")
		lead = strings.Repeat(" ", screen.Columns(lead))
	}
}

// writeSection writes a heading and the lines below it. Without lines it writes nothing.
func writeSection(b *screenText, head string, lines []string) {
	if len(lines) == 0 {
		return
	}
	b.WriteString("\n" + b.look.Paint(head, screen.Bold) + "\n")
	for _, l := range lines {
		writeParagraph(b, "- ", l)
	}
}
