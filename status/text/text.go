// Package text writes what culvertd answers for people: tables that fit the
// width they are given, without trailing spaces, coloured when asked; and, for
// programs, the same values as JSON or YAML. The CLI calls it with an api value
// and a writer's settings; nothing here asks the terminal or the environment.
package text

import (
	"fmt"
	"strings"
	"time"
)

// Options says how to write.
type Options struct {
	Width   int  // columns to fit; 0 is unlimited
	Color   bool // with ANSI colours
	Unicode bool // block characters; otherwise ASCII
	Wide    bool // all columns, whatever the width
	// Zone is where times are told for; nil is UTC.
	Zone *time.Location
}

type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

// paint colours s, if colours are wanted.
func (o Options) paint(s string, st style) string {
	if !o.Color || st == plain || s == "" {
		return s
	}
	return "\x1b[" + string(st) + "m" + s + "\x1b[0m"
}

func (o Options) ellipsis() string {
	if o.Unicode {
		return "…"
	}
	return ".."
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

// wrap breaks s between words to lines of at most width; 0 does not break. A
// word that is longer stays whole.
func wrap(s string, width int) []string {
	words := strings.Fields(s)
	if width <= 0 || len(words) == 0 {
		return []string{strings.Join(words, " ")}
	}
	lines := []string{words[0]}
	for _, w := range words[1:] {
		last := &lines[len(lines)-1]
		if columns(*last)+1+columns(w) > width {
			lines = append(lines, w)
			continue
		}
		*last += " " + w
	}
	return lines
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
