package text

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// The status lists each bond of the host once, with its PFs and the effect of a fail-over on their
// VFs.
func TestHostBond(t *testing.T) {
	bond, bridge := vf.Master{Name: "bond0", Kind: vf.MasterBond, Mode: vf.BondActiveBackup, Active: "enp1s0"}, vf.Master{Name: "br0", Kind: vf.MasterBridge}
	pf := func(name string, m *vf.Master) api.PF {
		return api.PF{PF: vf.PF{Name: name, Master: m}, FailOver: m.FailOver()}
	}
	st := api.NodeStatus{Ready: true, PFs: []api.PF{pf("enp1s0", &bond), pf("enp2s0", &bond), pf("enp3s0", &bridge), pf("enp4s0", nil)}}
	const want = `
- In bond0 (bond, active-backup, enp1s0 is active) of the host: enp1s0, enp2s0; when bond0 fails
    over, a VF stays on the wire of its PF: a pod that must keep its network needs a bond of its own
    (docs/bond.md)
- In br0 (bridge) of the host: enp3s0

`
	if got := Node(st, plainText); !strings.Contains(got, want) {
		t.Errorf("no\n%s\nin\n%s", want, got)
	}
	st.PFs = st.PFs[3:]
	if got := Node(st, plainText); strings.Contains(got, "of the host") {
		t.Errorf("without a bond:\n%s", got)
	}
}
