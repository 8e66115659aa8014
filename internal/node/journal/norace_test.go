//go:build !race

package journal_test

// raceEnabled reports whether the race detector is on, which makes tests some five times slower.
// With it, tests run a sample of their cases, and without it all cases.
const raceEnabled = false
