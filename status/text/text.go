// Package text writes what culvertd answers for people: tables that fit the
// width they are given, without trailing spaces, coloured when asked; and, for
// programs, the same values as JSON or YAML. The CLI calls it with an api value
// and a writer's settings; nothing here asks the terminal or the environment.
package text

import (
	"fmt"
	"time"

	"github.com/culvert-net/culvert/screen"
)

// Options says how to write.
type Options struct {
	screen.Look
	// Zone is where times are told for; nil is UTC.
	Zone *time.Location
}

// clock tells a time to the second.
func (o Options) clock(t time.Time) string {
	if o.Zone != nil {
		return t.In(o.Zone).Format(time.DateTime)
	}
	return t.UTC().Format(time.DateTime)
}

// ago tells a span as people do, in at most two units: 12s, 4m10s, 3h5m, 2d4h.
func ago(d time.Duration) string {
	d = max(0, d).Truncate(time.Second)
	s := int(d / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return pair(s/60, "m", s%60, "s")
	case s < 86400:
		return pair(s/3600, "h", s%3600/60, "m")
	}
	return pair(s/86400, "d", s%86400/3600, "h")
}

func pair(a int, unitA string, b int, unitB string) string {
	if b == 0 {
		return fmt.Sprintf("%d%s", a, unitA)
	}
	return fmt.Sprintf("%d%s%d%s", a, unitA, b, unitB)
}
