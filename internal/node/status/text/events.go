package text

import (
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/screen"
)

// Event draws one event of `culvert events`, wrapped: columns of events that come one by one
// cannot know how wide the next will be.
func Event(e api.Event, o Options) string {
	mark := " "
	reason := excerpt.Clean(e.Reason)
	if e.Type != "Normal" {
		mark, reason = o.Paint("!", screen.Yellow), o.Paint(reason, screen.Yellow)
	}
	head := fmt.Sprintf("%6d  %s %s ", e.Seq, o.formatTime(e.Time), mark)
	indent := 6 + 2 + len("2006-01-02 15:04:05") + 1 + 1 + 1
	var b strings.Builder
	lines := screen.Wrap(excerpt.Clean(e.Reason+" "+e.Object+": "+e.Text), o.Width-indent)
	for i, line := range lines {
		if i == 0 {
			line = reason + strings.TrimPrefix(line, excerpt.Clean(e.Reason))
			fmt.Fprintf(&b, "%s%s\n", head, line)
			continue
		}
		fmt.Fprintf(&b, "%s%s\n", strings.Repeat(" ", indent), line)
	}
	return b.String()
}

// Events draws a list of events.
func Events(events []api.Event, o Options) string {
	if len(events) == 0 {
		return "No events.\n"
	}
	var b strings.Builder
	for _, e := range events {
		b.WriteString(Event(e, o))
	}
	return b.String()
}
