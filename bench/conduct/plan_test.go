package conduct

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/bench"
)

// R3: a measurement on machines of OpenStack says, before it runs, why their ports may drop what it
// sends. It names each machine once.
func TestNotePorts(t *testing.T) {
	station := func(name string, openStack bool) *Station {
		return &Station{Site: Site{Machine: bench.Machine{Name: name, OpenStack: openStack}}}
	}
	got := notePorts([]*Station{station("w2", true), station("w1", true), station("w2", true), station("metal", false)})
	if len(got) != 1 || !strings.HasPrefix(got[0], "w1, w2: ") || !strings.Contains(got[0], "--allowed-address") {
		t.Errorf("%q", got)
	}
	if got := notePorts([]*Station{station("metal", false)}); got != nil {
		t.Errorf("%q", got)
	}
}
