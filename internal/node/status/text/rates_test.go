package text

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// The page of a VF has each rate three times: asked, accepted and effective.
func TestRates(t *testing.T) {
	asked := uint32(170)
	v := api.VF{Name: "enp1s0#0", Phase: "attached", Rates: []api.Rate{
		{Setting: vf.SetMinTxRate, Accepted: 20, Effective: 20},
		{Setting: vf.SetMaxTxRate, Asked: &asked, Accepted: 170, Effective: 150},
	}}
	page := VF(v, api.NodeStatus{}, plainText)
	for _, want := range []string{"min_tx_rate: asked nothing, accepted 20 Mb/s, effective 20 Mb/s\n", "max_tx_rate: asked 170 Mb/s, accepted 170 Mb/s, effective 150 Mb/s\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
}
