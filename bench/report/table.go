package report

import (
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/screen"
)

// wide is the most columns that a text has: an issue shows so many without breaking lines.
const wide = 100

// writeTable writes a table unless it has no rows, after an empty line if the text has begun.
func writeTable(b *strings.Builder, t *screen.Table) { t.WriteBelow(b, screen.Look{Width: wide}) }

// writeParagraph breaks foreign text into lines that keep within wide, the first after
// lead and the others indented by as much.
func writeParagraph(b *strings.Builder, lead, s string) {
	for _, line := range screen.WrapAll(excerpt.Clean(s), wide-screen.Columns(lead)) {
		b.WriteString(lead + line + "\n")
		lead = strings.Repeat(" ", screen.Columns(lead))
	}
}

// writeSection writes a heading and the lines below it. Without lines it writes nothing.
func writeSection(b *strings.Builder, look screen.Look, head string, lines []string) {
	if len(lines) == 0 {
		return
	}
	b.WriteString("\n" + look.Paint(head, screen.Bold) + "\n")
	for _, l := range lines {
		writeParagraph(b, "- ", l)
	}
}
