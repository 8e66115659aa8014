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

// The link of a PF is its speed where the driver reports one.
func TestLinkCell(t *testing.T) {
	up := api.PF{PF: vf.PF{Up: true, Carrier: true}}
	for want, change := range map[string]func(*api.PF){
		"down":       func(pf *api.PF) { pf.Up = false },
		"no carrier": func(pf *api.PF) { pf.Carrier = false },
		"up":         func(*api.PF) {},
		"100 Mb/s":   func(pf *api.PF) { pf.SpeedMbps = 100 },
		"2.5 Gb/s":   func(pf *api.PF) { pf.SpeedMbps = 2500 },
	} {
		pf := up
		change(&pf)
		if got := linkCell(pf).Text; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
