package failure

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
)

// TestMain has ten thousand histories run, on eight drivers, the same ones each
// time, unless the command line says otherwise (-rapid.seed=0 makes up others, as
// make soak does); some of them under the race detector.
func TestMain(m *testing.M) {
	checks := "1250"
	if raceEnabled {
		checks = "30"
	}
	for name, value := range map[string]string{"rapid.checks": checks, "rapid.seed": "20261122"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	debug.SetGCPercent(400) // many small worlds: a third of the time went into collecting them
	os.Exit(m.Run())
}
