package desired

import (
	"fmt"
	"strings"
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

// The MTU of a pool raises that of a PF whose first VFs are in the pool, and is the MTU of these VFs.
func TestMTUOfPools(t *testing.T) {
	pool := func(name, from string, mtu int) string {
		return "{name: " + name + ", mtu: " + fmt.Sprint(mtu) + ", selectors: {pfNames: ['a#" + from + "']}}"
	}
	for name, tt := range map[string]struct {
		pools      []string
		wanted     int // by the rule of the PF; 0: none
		ofPF       int
		ofVF0, vf1 int
	}{
		"no pool":             {nil, 0, 0, 0, 0},
		"a larger one":        {[]string{pool("p", "0", 9000)}, 0, 9000, 9000, 0},
		"a smaller one":       {[]string{pool("p", "0", 1400)}, 0, 0, 1400, 0},
		"two":                 {[]string{pool("p", "0", 9000), pool("q", "1", 4000)}, 0, 9000, 9000, 4000},
		"above the rule's":    {[]string{pool("p", "0", 9000)}, 2000, 9000, 9000, 2000},
		"below the rule's":    {[]string{pool("p", "0", 1400)}, 2000, 2000, 1400, 2000},
		"of no VF of the PF":  {[]string{pool("p", "5", 9000)}, 0, 0, 0, 0},
		"of a VF that exists": {[]string{"{name: p, mtu: 9000, selectors: {drivers: [igbvf]}}"}, 0, 9000, 9000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			mtu := ""
			if tt.wanted != 0 {
				mtu = fmt.Sprintf(", mtu: %d", tt.wanted)
			}
			spec, err := Parse("host.yaml", []byte("pfs: [{name: a, vfs: 2"+mtu+"}]\npools: ["+strings.Join(tt.pools, ", ")+"]"))
			if err != nil {
				t.Fatal(err)
			}
			first, second := vf.State{ID: vf.ID{Index: 0}, Driver: "igbvf"}, vf.State{ID: vf.ID{Index: 1}, Driver: "iavf"}
			pf := vf.PF{Name: "a", MTU: 1500, TotalVFs: 7, VFs: []vf.State{first, second}}
			if want, _ := spec.ForPF(pf); want.MTU != tt.ofPF {
				t.Errorf("the PF gets %d, want %d", want.MTU, tt.ofPF)
			}
			if zero, one := spec.MTUOfVF(pf, 0, first), spec.MTUOfVF(pf, 1, second); zero != tt.ofVF0 || one != tt.vf1 {
				t.Errorf("VFs get %d and %d, want %d and %d", zero, one, tt.ofVF0, tt.vf1)
			}
		})
	}
}
