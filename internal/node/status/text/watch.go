package text

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/screen"
)

// The changes on the screen of `culvert vf watch`.
const (
	markedFor    = 10 * time.Second // rows that changed within this time have a mark
	shownChanges = 5                // at most, below the list
)

// changeStyles has the colour of each kind of change.
func changeStyles() map[string]screen.Style {
	return map[string]screen.Style{api.Add: screen.Green, api.Remove: screen.Red, api.Modify: screen.Yellow}
}

// VFChange draws a change of a VF as one line of `culvert vf watch`.
func VFChange(c api.VFChange, o Options) string {
	parts := []string{}
	for _, a := range c.Changes {
		if c.Op == api.Add {
			parts = append(parts, a.Attribute+" "+a.To)
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %s -> %s", a.Attribute, cmp.Or(a.From, "none"), cmp.Or(a.To, "none")))
	}
	name := c.VF
	if c.Node != "" {
		name = c.Node + " " + name
	}
	line := excerpt.Clean(strings.TrimRight(name+"  "+strings.Join(parts, ", "), " "))
	return fmt.Sprintf("%s %s %s\n", o.formatTime(c.Time), o.Paint(c.Op, changeStyles()[c.Op]), line)
}

// OnScreen returns those of all changes that Watched shows at a time, in their order.
func OnScreen(all []api.VFChange, now time.Time) []api.VFChange {
	old := max(0, len(all)-shownChanges)
	for i, c := range all[:old] {
		if isMarked(c, now) {
			return all[i:]
		}
	}
	return all[old:]
}

func isMarked(c api.VFChange, now time.Time) bool { return now.Sub(c.Time) < markedFor }

// Watched draws the screen of `culvert vf watch`: the list of VFs, and below it the last changes. Rows
// that changed a short time ago begin with a mark: + for a new VF, ~ for another change.
func Watched(vfs []api.VF, changes []api.VFChange, now time.Time, interval time.Duration, o Options) string {
	type key struct{ node, vf string }
	marks := map[key]string{}
	for _, c := range changes {
		k := key{c.Node, c.VF}
		if isMarked(c, now) && marks[k] != api.Add { // a new VF stays new when it gets an owner
			marks[k] = c.Op
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  at each event, and every %s; + new and ~ changed within %s; Ctrl-C ends\n\n", o.formatTime(now), interval, markedFor)
	b.WriteString(listVFs(vfs, now, func(v api.VF) string { return marks[key{v.Node, v.Name}] }, o))
	last := changes[max(0, len(changes)-shownChanges):]
	if len(last) > 0 {
		fmt.Fprintf(&b, "\n%s\n", o.Paint("CHANGED", screen.Bold))
	}
	for _, c := range last {
		for i, line := range screen.Wrap(VFChange(c, Options{Look: screen.Look{}, Zone: o.Zone}), o.Width-4) {
			if i > 0 {
				line = "    " + line
			}
			b.WriteString(o.Paint(line, screen.Yellow) + "\n")
		}
	}
	return b.String()
}

// markCell puts a mark and a space in front of the first cell of a row. The mark may be empty.
func markCell(c screen.Cell, mark string) screen.Cell {
	if mark == "" {
		c.Text = "  " + c.Text
		return c
	}
	return screen.Cell{Text: mark + " " + c.Text, Style: changeStyles()[mark]}
}
