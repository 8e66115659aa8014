package main

import (
	"fmt"
	"os"

	"github.com/culvert-net/culvert/bench"
)

// readCPUTime reads the processor time of all cores of this machine since it booted.
func readCPUTime() (bench.CPUTime, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return bench.CPUTime{}, err
	}
	return bench.ParseCPUTime(text)
}

// describeBusy describes how busy the cores were during a run. If they were busy, only less work
// makes the run shorter; if not, the run waited. Without any processor time it returns "".
func describeBusy(spent bench.CPUTime, cores int) string {
	all := spent.Busy() + spent.Steal + spent.Idle
	if all <= 0 {
		return ""
	}
	return fmt.Sprintf("%d cores worked for %.0f s, busy for %.0f %% of the time", cores, spent.Busy().Seconds(), 100*float64(spent.Busy())/float64(all))
}
