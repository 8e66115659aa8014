package gather

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node"
	"github.com/culvert-net/culvert/internal/node/claims"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// TestClaimedByOthers: files of other managers that contradict host.yaml are problems of their PF.
// A PF that host.yaml does not name may be theirs.
func TestClaimedByOthers(t *testing.T) {
	pfs := []vf.PF{
		{Name: "enp1s0f0", PCI: vf.PCIAddr{Bus: 1}, Driver: "igb", MTU: 1500},
		{Name: "enp1s0f1", PCI: vf.PCIAddr{Bus: 1, Function: 1}, Driver: "igb", MTU: 1500},
	}
	spec, err := desired.Parse("host.yaml", []byte("pfs: [{name: enp1s0f0, vfs: 4, mtu: 9000}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	g := &Gatherer{Node: node.New(node.Config{}), Claims: &claims.Reader{Root: fstest.MapFS{
		"etc/netplan/a.yaml": {Data: []byte("network:\n  ethernets:\n    enp1s0f0: {virtual-function-count: 8, mtu: 9000}\n    enp1s0f1: {virtual-function-count: 8}\n")},
	}}}
	g.Node.SetSpec(spec)
	want := []api.Problem{{
		Object: "PF enp1s0f0 and netplan",
		Reason: "netplan sets sriov_numvfs to 8 (virtual-function-count=8), /etc/netplan/a.yaml:3: the kernel removes all VFs of a PF before it makes another number of them, also those of pods and VMs",
		Next:   "netplan set ethernets.enp1s0f0.virtual-function-count=null",
	}}
	if diff := cmp.Diff(want, g.readClaims(pfs)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
