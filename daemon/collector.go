package daemon

import "runtime/debug"

// gcPercent has Go's garbage collector run when the heap has grown by so much, and with a
// small heap each 6 MB instead of each 4. At Go's default of 100 the collector takes a
// fifth of the processor time of 256 attaches at once; at 200 it takes no less than here,
// and culvertd 4 MiB more (docs/design/0005, "Resident memory").
const gcPercent = 150

// SetCollector sets the garbage collector as culvertd has it. The environment variable
// GOGC, where the caller has it, comes first.
func SetCollector(gogc string) {
	if gogc == "" {
		debug.SetGCPercent(gcPercent)
	}
}
