package evidence

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/bench"
)

// parseSoftnet sums /proc/net/softnet_stat: a line for each processor, with processed,
// dropped and time_squeeze as its first three hexadecimal columns of 32 bits
// (net/core/net-procfs.c, softnet_seq_show).
func parseSoftnet(text string) ([]bench.Softnet, error) {
	var lines []bench.Softnet
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return nil, fmt.Errorf("read /proc/net/softnet_stat: %q has fewer than three columns", line)
		}
		var s bench.Softnet
		for i, to := range []*uint64{&s.Processed, &s.Dropped, &s.Squeezed} {
			n, err := strconv.ParseUint(fields[i], 16, 32)
			if err != nil {
				return nil, fmt.Errorf("read /proc/net/softnet_stat: column %d: %w", i+1, err)
			}
			*to = n
		}
		lines = append(lines, s)
	}
	if lines == nil {
		return nil, fmt.Errorf("read /proc/net/softnet_stat: it is empty")
	}
	return lines, nil
}

// softnetRisen sums by how much all processors' counters rose. They have 32 bits and wrap
// in minutes on a busy machine; within a window they do so at most once.
func softnetRisen(before, after []bench.Softnet) (bench.Softnet, error) {
	if len(before) != len(after) {
		return bench.Softnet{}, fmt.Errorf("/proc/net/softnet_stat had %d processors before the window and %d after it", len(before), len(after))
	}
	var sum bench.Softnet
	for i, b := range before {
		a := after[i]
		sum.Processed += uint64(uint32(a.Processed) - uint32(b.Processed))
		sum.Dropped += uint64(uint32(a.Dropped) - uint32(b.Dropped))
		sum.Squeezed += uint64(uint32(a.Squeezed) - uint32(b.Squeezed))
	}
	return sum, nil
}
