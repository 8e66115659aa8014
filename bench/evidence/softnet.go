package evidence

import (
	"errors"
	"fmt"

	"github.com/prometheus/procfs"

	"github.com/culvert-net/culvert/bench"
)

// readSoftnet reads /proc/net/softnet_stat, a line for each processor
// (net/core/net-procfs.c, softnet_seq_show).
func readSoftnet(proc procfs.FS) ([]bench.Softnet, error) {
	lines, err := proc.NetSoftnetStat()
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 {
		return nil, errors.New("read /proc/net/softnet_stat: it is empty")
	}
	var all []bench.Softnet
	for _, l := range lines {
		all = append(all, bench.Softnet{Processed: uint64(l.Processed), Dropped: uint64(l.Dropped), Squeezed: uint64(l.TimeSqueezed)})
	}
	return all, nil
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
