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

// VFChange draws a change of a VF as one line of `culvert vf watch`.
func VFChange(c api.VFChange, o Options) string {
	style := map[string]screen.Style{api.Add: screen.Green, api.Remove: screen.Red, api.Modify: screen.Yellow}
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
	return fmt.Sprintf("%s %s %s\n", o.formatTime(c.Time), o.Paint(c.Op, style[c.Op]), line)
}

// Watched draws the screen of `culvert vf watch`: the list of VFs, and below it the last changes.
func Watched(vfs []api.VF, last []api.VFChange, now time.Time, interval time.Duration, o Options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  at each event, and every %s; Ctrl-C ends\n\n", o.formatTime(now), interval)
	b.WriteString(VFs(vfs, now, o))
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
