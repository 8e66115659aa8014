package text

import (
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/screen"
)

// Why draws the answer of `culvert why`.
func Why(w api.Why, o Options) string {
	var b strings.Builder
	head := w.Object + " " + w.State
	if !w.Since.IsZero() {
		head += " since " + o.formatTime(w.Since) + " (for " + screen.Ago(w.Time.Sub(w.Since)) + ")"
	}
	if w.Node != "" {
		head += ", on node " + w.Node
	}
	fmt.Fprintf(&b, "%s\n", o.Paint(excerpt.Clean(head), screen.Bold))
	if len(w.Causes) == 0 {
		b.WriteString("Culvert finds nothing wrong with it.\n")
	}
	for i, c := range w.Causes {
		b.WriteByte('\n')
		mark := o.Paint("!", screen.Red)
		if i > 0 {
			mark = o.Paint("!", screen.Yellow)
		}
		since := ""
		if !c.Since.IsZero() {
			since = " (for " + screen.Ago(w.Time.Sub(c.Since)) + ")"
		}
		writeEntry(&b, o, 0, mark, excerpt.Clean(c.Source+": "+c.Text+since))
		for _, d := range c.Details {
			writeEntry(&b, o, 2, "-", excerpt.Clean(d))
		}
		if c.Next != "" {
			writeEntry(&b, o, 2, "", excerpt.Clean("next: "+c.Next))
		}
	}
	return b.String()
}
