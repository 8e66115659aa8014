package report

import (
	"strings"

	"github.com/culvert-net/culvert/excerpt"
	"github.com/culvert-net/culvert/screen"
)

// wide is how many columns a text has at most: what an issue shows unbroken.
const wide = 100

// write writes a table that has rows, behind an empty line if it is not the first.
func write(b *strings.Builder, t *screen.Table) { t.WriteBelow(b, screen.Look{Width: wide}) }

// paragraph breaks foreign text into lines that keep within wide, the first after
// lead and the others indented by as much.
func paragraph(b *strings.Builder, lead, s string) {
	for _, line := range screen.WrapAll(excerpt.Clean(s), wide-screen.Columns(lead)) {
		b.WriteString(lead + line + "\n")
		lead = strings.Repeat(" ", screen.Columns(lead))
	}
}

// section is a heading with a line for each of what is below it; without any it
// writes nothing.
func section(b *strings.Builder, look screen.Look, head string, lines []string) {
	if len(lines) == 0 {
		return
	}
	b.WriteString("\n" + look.Paint(head, screen.Bold) + "\n")
	for _, l := range lines {
		paragraph(b, "- ", l)
	}
}
