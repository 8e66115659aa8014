package plan

import (
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/screen"
)

// Draw returns the plan for people: a diff, whom each change hurts, and the refusals.
func Draw(p Plan, look screen.Look) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", look.Paint("host "+excerpt.Clean(p.Host), screen.Bold))
	styles := map[string]screen.Style{"+": screen.Green, "-": screen.Red, "~": screen.Yellow}
	for _, s := range p.Steps {
		for _, l := range s.Lines {
			writeEntry(&b, look, 2, look.Paint(l.Op, styles[l.Op]), l.Text)
		}
		for _, h := range s.Hurts {
			writeEntry(&b, look, 4, look.Paint("!", screen.Red), h)
		}
	}
	if len(p.Steps) == 0 && len(p.Refusals) == 0 {
		b.WriteString("  Nothing changes.\n")
	}
	for _, n := range p.Notes {
		writeEntry(&b, look, 2, "note:", n)
	}
	if len(p.Refusals) > 0 {
		b.WriteString("\n" + look.Paint("REFUSED, and nothing is touched", screen.Bold) + "\n")
	}
	for _, r := range p.Refusals {
		writeEntry(&b, look, 0, look.Paint("!", screen.Red), r)
	}
	return b.String()
}

// writeEntry writes a text behind a mark, and breaks it between words.
func writeEntry(b *strings.Builder, look screen.Look, indent int, mark, text string) {
	width := look.Width
	if width > 0 {
		width = max(width-indent-4, 20)
	}
	for i, line := range screen.Wrap(excerpt.Clean(text), width) {
		if i > 0 {
			mark = " "
		}
		fmt.Fprintf(b, "%s%s %s\n", strings.Repeat(" ", indent), mark, line)
	}
}
