// Package evidence reads the load and the counters of a machine while traffic runs, and the
// properties of the machine on which figures depend.
//
// In go the files of /proc and /sys and, of one network namespace, the answers to
// ethtool's questions; out come [bench.Evidence], [bench.Machine] and [bench.End].
// It changes nothing. Files are read below a folder that a test can set; prometheus/procfs
// parses most of /proc. Package agent calls it.
//
// Interface counters come from /proc/net/dev: it is of the process's network namespace
// whatever is mounted at /sys, its counters have 64 bits, and it counts frames that
// a VF's netdev handled also where the PF's view of the VF reads zero.
package evidence
