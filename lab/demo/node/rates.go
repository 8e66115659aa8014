package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
)

// Rate is what iperf3 carried in one of its intervals. Times are in seconds since 1970.
type Rate struct{ From, To, BitsPerSecond float64 }

// endedByUs is the beginning of iperf3's error if a signal ended it.
const endedByUs = "interrupt - "

// parseRates reads the time at which iperf3 was started, and its JSON. The error says what ended iperf3
// before a signal did; the rates until then come with it.
func parseRates(text string) ([]Rate, error) {
	first, body, _ := strings.Cut(text, "\n")
	var began float64
	if _, err := fmt.Sscanf(first, "%g", &began); err != nil {
		return nil, fmt.Errorf("read when iperf3 began %q: %w", first, err)
	}
	var printed struct {
		Intervals []struct {
			Sum struct {
				Start         float64 `json:"start"`
				End           float64 `json:"end"`
				BitsPerSecond float64 `json:"bits_per_second"`
			} `json:"sum"`
		} `json:"intervals"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal([]byte(body), &printed); err != nil {
		return nil, fmt.Errorf("read what iperf3 printed: %w: %s", err, lastPart(body))
	}
	var out []Rate
	for _, i := range printed.Intervals {
		out = append(out, Rate{began + i.Sum.Start, began + i.Sum.End, i.Sum.BitsPerSecond})
	}
	if printed.Error != "" && !strings.HasPrefix(printed.Error, endedByUs) {
		return out, errors.New(printed.Error)
	}
	return out, nil
}

// findRecovery returns the seconds from the beginning of a gap until the end of the first interval after
// it with 90 % of the median before it; ok is false if there is none. Intervals within the gap do not
// count: iperf3 counts what it writes, and the socket takes some of it without a network.
func findRecovery(rates []Rate, gap Gap) (seconds float64, ok bool) {
	var before []float64
	for _, r := range rates {
		if r.To <= gap.From {
			before = append(before, r.BitsPerSecond)
		}
	}
	if len(before) == 0 {
		return 0, false
	}
	enough := 0.9 * bench.Median(before)
	i := slices.IndexFunc(rates, func(r Rate) bool { return r.From >= gap.To && r.BitsPerSecond >= enough })
	if i < 0 {
		return 0, false
	}
	return rates[i].To - gap.From, true
}
