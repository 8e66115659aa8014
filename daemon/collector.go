package daemon

import "runtime/debug"

// gcPercent makes Go's garbage collector run when the heap has grown by this part, and with a
// small heap after 6 MB instead of 4. At Go's default of 100 the collector takes a fifth of the
// processor time of 256 attaches at once; at 200 it takes no less than here, and culvertd 4 MiB
// more (docs/design/0005, "Resident memory").
const gcPercent = 150

// softLimit is the memory in bytes from which on the collector runs more often. With the 15
// to 19 MiB of the program's file that are resident, culvertd stays within the 40 MiB of
// the design (TestMemoryUnderAttack). Go exceeds it rather than stop.
const softLimit = 20 << 20

// SetCollector sets the garbage collector as culvertd has it. The environment variables
// GOGC and GOMEMLIMIT, where the caller has them, come first.
func SetCollector(gogc, gomemlimit string) {
	if gogc == "" {
		debug.SetGCPercent(gcPercent)
	}
	if gomemlimit == "" {
		debug.SetMemoryLimit(softLimit)
	}
}
