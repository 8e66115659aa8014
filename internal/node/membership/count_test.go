package membership

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/journal"
)

// The node's addresses are counted by the name of their AddressPool, with what its ledger holds.
func TestCountAddresses(t *testing.T) {
	m, c := joined(t)
	c.pools = []*v1alpha1.AddressPool{{ObjectMeta: metav1.ObjectMeta{Name: "blue"}, Spec: v1alpha1.AddressPoolSpec{
		Network: "d/net", Blocks: []v1alpha1.AddressBlock{
			{Node: "n1", NodeUID: "uid", Grant: "g", First: "10.0.0.2", Last: "10.0.0.9"}, {Node: "n2", NodeUID: "other", First: "10.0.0.10", Last: "10.0.0.20"},
		},
	}}}
	m.look(t)
	got := m.CountAddresses(
		[]journal.Grant{{Network: "d/net", ID: "g"}},
		[]journal.Address{{Network: "d/net", Addr: netip.MustParseAddr("10.0.0.5")}, {Network: "d/net", Addr: netip.MustParseAddr("10.0.0.11")}},
	)
	if diff := cmp.Diff([]api.AddressUse{{Pool: "blue", Used: 1, Free: 7}}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
