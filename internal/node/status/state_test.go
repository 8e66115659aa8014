package status

import (
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// Each VF is in one state, and the counts of a PF agree with the states.
func TestStateOf(t *testing.T) {
	owner := &vf.Owner{Kind: vf.OwnerPod, Name: "default/a"}
	var all []api.VF
	for _, c := range []struct {
		vf   api.VF
		want State
	}{
		{api.VF{Phase: string(vf.PhaseFree)}, Free},
		{api.VF{Phase: string(vf.PhaseFree), Unread: true}, ""},
		{api.VF{Phase: string(vf.PhaseAttached), Missing: true}, ""},
		{api.VF{Phase: string(vf.PhaseAttached), Unread: true, Owner: owner}, Used},
		{api.VF{Phase: api.PhaseGiven, Owner: owner}, Used},
		{api.VF{Phase: string(vf.PhaseReleasing), Owner: owner}, Used},
		{api.VF{Phase: string(vf.PhaseReleasing)}, Making},
		{api.VF{Phase: string(vf.PhaseReleasing), Owner: owner, Attempts: 1}, Quarantined},
		{api.VF{Phase: string(vf.PhaseQuarantined)}, Quarantined},
		{api.VF{Phase: string(vf.PhaseDamaged)}, Quarantined},
		{api.VF{Phase: string(vf.PhaseMaking)}, Making},
		{api.VF{Phase: api.PhaseUnmanaged}, Unmanaged},
		{api.VF{Phase: api.PhaseOutside}, Outside},
	} {
		if got, counts := StateOf(c.vf); got != c.want || counts != (c.want != "") {
			t.Errorf("%+v: %q, counts: %t", c.vf, got, counts)
		}
		all = append(all, c.vf)
	}
	if got, want := countVFs(all), (api.Counts{Total: 11, Free: 1, Used: 4, Quarantined: 3, Making: 2, Unmanaged: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
