package daemon

import "runtime/debug"

// gcPercent makes Go's garbage collector run when the heap has grown to three times what was in use.
// A cycle of the collector slows the attaches in which it runs, and at 200 there are fewer cycles than
// at 150 (docs/design/0005, "Addresses"). At 300, culvertd has 5 MiB more at rest. At Go's default of
// 100 the collector also takes a fifth of the processor time of 256 attaches at once.
const gcPercent = 200

// softLimit is the memory in bytes from which on the collector runs more often. With the 15
// to 19 MiB of the program's file that are resident, culvertd stays within the 40 MiB of
// the design (TestMemoryUnderAttack). Go exceeds it rather than stop.
const softLimit = 20 << 20

// SetCollector sets the garbage collector as culvertd needs it. gogc and gomemlimit are the
// environment variables of these names; one that is set overrides culvertd's value.
func SetCollector(gogc, gomemlimit string) {
	if gogc == "" {
		debug.SetGCPercent(gcPercent)
	}
	if gomemlimit == "" {
		debug.SetMemoryLimit(softLimit)
	}
}
