// Package soak marks the tests that take minutes. `make test` calls go test with -short, which
// leaves them out; `make soak` runs all.
package soak

import "testing"

// Only skips the calling test if go test runs with -short. reason names the part of the test that
// takes minutes, or why it needs a machine without other load.
func Only(t testing.TB, reason string) {
	t.Helper()
	if testing.Short() {
		t.Skip("make soak runs it: " + reason)
	}
}
