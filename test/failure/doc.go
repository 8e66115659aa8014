// Package failure proves that nothing is lost (invariants I1-I8) when things go
// wrong on the fake kernel: culvertd is killed at every moment there is
// (crash_test.go), every step fails in every way that a kernel has
// (fault_test.go), things change outside Culvert (drift_test.go), and histories
// of all of that are made up at random and compared with a small model
// (history_test.go). Moments and steps are counted while the work runs, so a
// new step is covered without anybody adding it here.
package failure
