//go:build race

package journal_test

// raceEnabled is whether the race detector watches, which makes everything some
// five times slower: with it a sample runs, without it everything.
const raceEnabled = true
