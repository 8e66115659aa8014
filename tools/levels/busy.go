package main

import (
	"fmt"
	"os"

	"github.com/culvert-net/culvert/bench"
)

// readCPUTime reads what all cores of this machine have done since it booted.
func readCPUTime() (bench.CPUTime, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return bench.CPUTime{}, err
	}
	return bench.ParseCPUTime(text)
}

// describeBusy says how busy the cores were for a time. It shows whether a run has too much to
// do, which only less work makes shorter, or waits. Without ticks it returns "".
func describeBusy(spent bench.CPUTime, cores int) string {
	all := spent.Busy() + spent.Steal + spent.Idle
	if all <= 0 {
		return ""
	}
	return fmt.Sprintf("%d cores worked for %.0f s, busy for %.0f %% of the time", cores, spent.Busy().Seconds(), 100*float64(spent.Busy())/float64(all))
}
