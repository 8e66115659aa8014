package desired

import (
	"testing"

	"github.com/culvert-net/culvert/internal/vf"
)

// A bond or team of the host sets the MTU of its members, and a bridge does not.
func TestMTUOfMembers(t *testing.T) {
	for name, tt := range map[string]struct {
		wanted, have int
		kind         string // of the master; empty: none
		changes      bool
		ofVFs        int
		reason       string
	}{
		"no master":              {9000, 1500, "", true, 9000, ""},
		"a bridge":               {9000, 1500, vf.MasterBridge, true, 9000, ""},
		"a bond with a smaller":  {9000, 1500, vf.MasterBond, false, 1500, "MTU 9000 wanted (host.yaml:1), it is 1500, as m0 of the host sets it for its members"},
		"a team with a smaller":  {9000, 1500, vf.MasterTeam, false, 1500, "MTU 9000 wanted (host.yaml:1), it is 1500, as m0 of the host sets it for its members"},
		"a bond with a larger":   {1500, 9000, vf.MasterBond, false, 1500, "MTU 1500 wanted (host.yaml:1), it is 9000, as m0 of the host sets it for its members"},
		"a bond with the wanted": {9000, 9000, vf.MasterBond, false, 9000, ""},
		"a bond, none wanted":    {0, 9000, vf.MasterBond, false, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			want, pf := PFSpec{MTU: tt.wanted, From: "host.yaml:1"}, vf.PF{Name: "enp1s0", MTU: tt.have}
			if tt.kind != "" {
				pf.Master = &vf.Master{Name: "m0", Kind: tt.kind}
			}
			if got := want.ChangesMTU(pf); got != tt.changes {
				t.Errorf("culvertd sets it: %t", got)
			}
			spec := Spec{PFs: []PFRule{{Name: pf.Name, Want: want}}}
			if got := spec.MTUOfVF(pf, 0, vf.State{}); got != tt.ofVFs {
				t.Errorf("VFs get %d, want %d", got, tt.ofVFs)
			}
			reason, next, ok := want.OtherMTU(pf)
			if reason != tt.reason || ok != (reason != "") || ok != (next != "") {
				t.Errorf("%q, next %q, %t", reason, next, ok)
			}
		})
	}
}
