package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// P13: the status has the requested rate, the rate that the driver reports, and the rate that the
// hardware keeps. i40e rounds down to steps of 50 and reports the rate that was asked for.
func TestRates(t *testing.T) {
	pf := igb(0, 2)
	pf.Driver = "i40e"
	r := free(pf.VFs[0])
	r.Phase, r.Lease = vf.PhaseAttached, journal.Lease{Owner: vf.Owner{Kind: vf.OwnerPod, Name: "default/a"}, Wanted: vf.Spec{MaxTxRate: ptr(uint32(170))}}
	pf.VFs[0].Admin.MaxTxRate = 170
	st := Assemble(Input{Now: now, PFs: []vf.PF{pf}, Records: []journal.Record{r, free(pf.VFs[1])}})
	want := []api.Rate{{Setting: vf.SetMaxTxRate, Asked: ptr(uint32(170)), Accepted: 170, Effective: 150}}
	if diff := cmp.Diff(want, st.VFs[0].Rates); diff != "" {
		t.Errorf("rates (-want +got):\n%s", diff)
	}
	if got := st.VFs[1].Rates; got != nil {
		t.Errorf("a VF without limits has rates %v", got)
	}
}
