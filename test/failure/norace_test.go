//go:build !race

package failure

// raceEnabled says whether the race detector is on. The tests are then some
// five times slower, so only a sample of them runs.
const raceEnabled = false
