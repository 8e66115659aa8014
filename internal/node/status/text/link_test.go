package text

import (
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// For a flapping link, the column LINK says only that it is flapping, so the column does not change
// with the link.
func TestFlappingLink(t *testing.T) {
	for _, carrier := range []bool{true, false} {
		if got := linkCell(api.PF{PF: vf.PF{Up: true, Carrier: carrier, SpeedMbps: 1000, Flapping: true}}).Text; got != "flapping" {
			t.Errorf("carrier %t: %q", carrier, got)
		}
	}
}
