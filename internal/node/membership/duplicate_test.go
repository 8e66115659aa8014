package membership

import (
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/vf"
)

// An address of the node's block that another machine has counts as used: the node requests
// another one in its place.
func TestDuplicateCountsAsUsed(t *testing.T) {
	m, c := joined(t)
	k := m.Node.VFs.Kernel.(*fake.Kernel)
	const section = `{"type": "host-local", "subnet": "fd00::/64"}`
	c.networks = []api.NetworkDefinition{nad("net", "", `{"type": "sriov", "ipam": `+section+`}`)}
	c.policies = []*v1alpha1.NodePolicy{policy("p", 0, 3, "a")}
	m.look(t)
	id := m.look(t).AddressRequests[0].Grant
	c.pools = []*v1alpha1.AddressPool{{ObjectMeta: metav1.ObjectMeta{Name: "net"}, Spec: v1alpha1.AddressPoolSpec{
		Network: "d/net", Blocks: []v1alpha1.AddressBlock{{Node: "n1", NodeUID: "uid", Grant: id, First: "fd00::2", Last: "fd00::9"}},
	}}}
	m.look(t)
	if err := m.Node.Reconciler.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	parsed, err := ipam.Parse([]byte(section))
	if err != nil {
		t.Fatal(err)
	}
	k.AddNetns("/run/netns/a")
	k.SetElsewhere(netip.MustParseAddr("fd00::2"), true)
	rec, err := m.Node.Engine.Attach(t.Context(), attach.Request{
		Owner:   vf.Owner{Kind: vf.OwnerPod, UID: "a", Name: "d/a", Interface: "net1"},
		Network: "net", AddressPool: "d/net", Netns: "/run/netns/a", Spec: vf.Spec{Interface: "net1"}, IPAM: parsed,
	})
	if err != nil || rec.Lease.Wanted.Addresses[0].Prefix.Addr() != netip.MustParseAddr("fd00::3") {
		t.Fatalf("%v %v", rec.Lease.Wanted.Addresses, err)
	}
	if r := m.look(t).AddressRequests[0]; r.Used != 2 {
		t.Errorf("%d addresses are used, want 2: %+v", r.Used, r)
	}
}
