package text

import (
	"testing"

	"github.com/culvert-net/culvert/api"
)

// The column LINK says of a link that is flapping only that, so that it does not change with it.
func TestFlappingLink(t *testing.T) {
	for _, carrier := range []bool{true, false} {
		if got := linkCell(api.PF{Up: true, Carrier: carrier, SpeedMbps: 1000, Flapping: true}).Text; got != "flapping" {
			t.Errorf("carrier %t: %q", carrier, got)
		}
	}
}
