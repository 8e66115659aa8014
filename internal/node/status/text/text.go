// Package text writes culvertd's answers for people: tables that fit the given width, without
// trailing spaces, coloured if requested. For programs it writes the same values as JSON or YAML.
// The CLI calls it with an api value and a writer's settings; nothing here asks the terminal or the
// environment.
package text

import (
	"time"

	"github.com/culvert-net/culvert/internal/screen"
)

// Options says how to write.
type Options struct {
	screen.Look
	// Zone is the time zone of printed times; nil is UTC.
	Zone *time.Location
}

// formatTime formats a time to the second.
func (o Options) formatTime(t time.Time) string {
	if o.Zone != nil {
		return t.In(o.Zone).Format(time.DateTime)
	}
	return t.UTC().Format(time.DateTime)
}
