package cli

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Since is a point in time, or the number of an event after which to begin.
type Since struct {
	Time  time.Time
	After uint64
}

// AddSince gives cmd the flag --since. It takes a time or how long ago that was. If withNumbers, it
// also takes the number of an event.
func AddSince(cmd *cobra.Command, value *Since, withNumbers bool, usage string) {
	want := `a time, such as 2026-11-24, "2026-11-24 15:04", 2h or 2d`
	if withNumbers {
		want += ", or the number of an event"
	}
	AddParsed(cmd, value, "since", "time", want, usage, func(text string) (Since, error) {
		if n, err := strconv.ParseUint(text, 10, 64); err == nil && withNumbers {
			return Since{After: n}, nil
		}
		at, err := parseSince(text, time.Now())
		return Since{Time: at}, err
	})
}

// longestSince bounds how long ago a time may be.
const longestSince = 100 * 365 * 24 * time.Hour

// parseSince reads a time, which is local if it names no zone, or how long before now it was, such as
// 90m, 2d or 1d12h.
func parseSince(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", "2006-01-02T15:04", time.DateTime, "2006-01-02T15:04:05"} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	days, rest, hasDays := strings.Cut(text, "d")
	ago := time.Duration(0)
	if hasDays {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return time.Time{}, errSince
		}
		ago = time.Duration(n) * 24 * time.Hour
	} else {
		rest = text
	}
	if rest != "" || !hasDays {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 {
			return time.Time{}, errSince
		}
		ago += d
	}
	if ago < 0 || ago > longestSince {
		return time.Time{}, errSince
	}
	return now.Add(-ago), nil
}

var errSince = errors.New("neither a time nor a duration")

// AddParsed gives cmd a flag whose value parse reads. want describes the values that it takes.
func AddParsed[T any](cmd *cobra.Command, value *T, name, kind, want, usage string, parse func(string) (T, error)) {
	cmd.Flags().Var(&parsed[T]{value: value, kind: kind, want: want, parse: parse}, name, usage)
}

type parsed[T any] struct {
	value            *T
	kind, want, text string
	parse            func(string) (T, error)
}

func (p *parsed[T]) String() string { return p.text }
func (p *parsed[T]) Type() string   { return p.kind }

func (p *parsed[T]) Set(text string) (err error) {
	v, err := p.parse(text)
	if err != nil {
		return errors.New("want " + p.want)
	}
	*p.value, p.text = v, text
	return nil
}
