// Package failure tests on the fake kernel that nothing is lost (invariants
// I1-I8) after failures. culvertd is killed at every moment (crash_test.go),
// and every step fails in every way that a kernel has (fault_test.go). VFs
// change outside Culvert (drift_test.go). Random histories combine all of that,
// and a small model checks them (history_test.go). Moments and steps are
// counted while the work runs, so the tests cover a new step without a change
// here.
package failure
