package failure

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
)

// TestMain sets the defaults of package rapid: ten thousand histories on eight
// drivers, the same ones each time. Under the race detector there are fewer. With
// -rapid.seed=0, as in make soak, each run makes up new ones.
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
