package bench

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// Pings is the outcome of one run of ping.
type Pings struct {
	Sent, Received int
	// Min, Avg and Max are round-trip times in milliseconds, 0 when nothing
	// came back.
	Min, Avg, Max float64
}

var (
	pingCount = regexp.MustCompile(`(?m)^(\d+) packets transmitted, (\d+) (?:packets )?received\b`)
	// iputils says rtt, busybox round-trip and no mdev.
	pingTimes = regexp.MustCompile(`(?m)^(?:rtt|round-trip) min/avg/max(?:/mdev)? = ([\d.]+)/([\d.]+)/([\d.]+)(?:/[\d.]+)? ms`)
)

// ParsePing reads what ping prints at its end: that of iputils (20121221 and
// later) and that of busybox.
func ParsePing(text []byte) (Pings, error) {
	count := pingCount.FindSubmatch(text)
	if count == nil {
		return Pings{}, fmt.Errorf("read ping's result: no line \"N packets transmitted, N received\" in %s", excerpt.QuoteOutput(string(text)))
	}
	var p Pings
	var err error
	if p.Sent, err = strconv.Atoi(string(count[1])); err != nil {
		return Pings{}, fmt.Errorf("read ping's result: packets transmitted: %w", err)
	}
	if p.Received, err = strconv.Atoi(string(count[2])); err != nil {
		return Pings{}, fmt.Errorf("read ping's result: packets received: %w", err)
	}
	times := pingTimes.FindSubmatch(text)
	if times == nil {
		if p.Received > 0 {
			return Pings{}, fmt.Errorf("read ping's result: %d packets came back, and no times stand in %s", p.Received, excerpt.QuoteOutput(string(text)))
		}
		return p, nil
	}
	for i, v := range []*float64{&p.Min, &p.Avg, &p.Max} {
		if *v, err = strconv.ParseFloat(string(times[i+1]), 64); err != nil {
			return Pings{}, fmt.Errorf("read ping's result: round-trip time: %w", err)
		}
	}
	return p, nil
}
