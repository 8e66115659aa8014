package text

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/internal/vf"
)

// TestWarningsOfNetworks: culvert status of a node and of a cluster prints a warning once for each network, also when
// several pods have its VFs, and culvert vf show prints those of its VF.
func TestWarningsOfNetworks(t *testing.T) {
	held := func(pod, network string, warnings ...string) api.VF {
		return api.VF{Name: "enp1s0#0", Network: network, Warnings: warnings, Owner: &vf.Owner{Kind: vf.OwnerPod, Name: pod}}
	}
	st := api.NodeStatus{Ready: true, VFs: []api.VF{
		held("default/a", "default/blue", "vlna 5: unknown key, ignored: did you mean vlan?"), held("default/b", "default/blue", "vlna 5: unknown key, ignored: did you mean vlan?"),
		held("default/c", "default/red", "spoofChk off: read as spoofchk: write it so"), held("default/d", "default/green"),
	}}
	o := Options{Look: screen.Look{Width: 120}}
	want := `
WARNINGS (2)
! network default/blue (pod default/a and 1 more): vlna 5: unknown key, ignored: did you mean vlan?
! network default/red (pod default/c): spoofChk off: read as spoofchk: write it so
`
	if got := Node(st, o); !strings.HasSuffix(got, want+"\nSee also: culvert vf list, culvert events, culvert doctor.\n") {
		t.Errorf("culvert status:\n%s", got)
	}
	cluster := api.ClusterStatus{Nodes: []api.NodeStatus{{Ready: true, VFs: st.VFs[:1]}, {Ready: true, VFs: st.VFs[1:]}}}
	if got := Cluster(cluster, o); !strings.HasSuffix(got, "Nothing is wrong.\n"+want) {
		t.Errorf("culvert status --cluster:\n%s", got)
	}
	if got := VF(st.VFs[2], st, o); !strings.Contains(got, "  warning     spoofChk off: read as spoofchk: write it so\n") {
		t.Errorf("culvert vf show:\n%s", got)
	}
	if got := Node(api.NodeStatus{VFs: st.VFs[3:]}, o); strings.Contains(got, "WARNINGS") {
		t.Errorf("culvert status without warnings:\n%s", got)
	}
}
