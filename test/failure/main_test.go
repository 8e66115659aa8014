package failure

import (
	"flag"
	"os"
	"testing"
)

// TestMain has ten thousand histories run, on eight drivers, unless the command
// line says otherwise; some of them under the race detector.
func TestMain(m *testing.M) {
	checks := "1250"
	if raceEnabled {
		checks = "200"
	}
	if err := flag.Set("rapid.checks", checks); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
