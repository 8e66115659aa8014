package kernel_test

import (
	"testing"
	"time"
)

// The kernel counts errors of PFs and VFs, and the root port above each PF counts the errors that
// it receives. So only the first read, and one read a minute, read all counters.
func TestLabErrorReader(t *testing.T) {
	n := labNode(t)
	r := n.NewErrorReader()
	if got := r.Read(n.pfs); len(got) != 2*(1+perPF) {
		t.Errorf("%d devices were read, want %d: %v", len(got), 2*(1+perPF), got)
	}
	r.Read(n.pfs) // a root port may have received an error meanwhile
	begin := time.Now()
	got := r.Read(n.pfs)
	t.Logf("%7.3f ms  counters of errors: %v", float64(time.Since(begin).Microseconds())/1000, got)
	if len(got) != 2 {
		t.Errorf("%d devices were read again, want the PFs: does the root port count errors?", len(got))
	}
}
