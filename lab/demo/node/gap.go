package node

import (
	"fmt"
	"strings"
	"time"
)

// Gap is the time between two answers to a ping, in seconds since 1970.
type Gap struct{ From, To float64 }

// Length returns how long the gap is, to a tenth of a millisecond.
func (g Gap) Length() time.Duration {
	return time.Duration((g.To - g.From) * float64(time.Second)).Round(100 * time.Microsecond)
}

// Answers are the answers to a ping.
type Answers struct {
	Count      int // without the duplicates
	Duplicates int
	Longest    Gap
}

// duplicate is what ping prints after an answer that it has already received.
const duplicate = "(DUP!)"

// FindGap finds the longest time between two answers, and counts them. Each line of text is the time
// of an answer in seconds since 1970, as ping -D prints it. The word (DUP!) may follow.
func FindGap(text string) (a Answers, err error) {
	var last float64
	for line := range strings.Lines(text) {
		var at float64
		if _, err := fmt.Sscanf(line, "%g", &at); err != nil {
			return Answers{}, fmt.Errorf("read the time of an answer %q: %w", line, err)
		}
		if strings.Contains(line, duplicate) {
			a.Duplicates++
			continue
		}
		if a.Count > 0 && at-last > a.Longest.To-a.Longest.From {
			a.Longest = Gap{last, at}
		}
		last = at
		a.Count++
	}
	if a.Count < 2 {
		return Answers{}, fmt.Errorf("%d answers to a ping", a.Count)
	}
	return a, nil
}
