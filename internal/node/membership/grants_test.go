package membership

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// I4: a node requests blocks under an ID that is in its ledger. It gives up the
// addresses that another node's pods request and that it does not hold. It records that
// in the ledger before it reports it, and a culvertd that starts anew reports the same.
func TestI4WantedAddressIsGivenUp(t *testing.T) {
	m, c := joined(t)
	c.networks = []api.NetworkDefinition{nad("net", "", `{"type": "sriov", "ipam": {"type": "host-local", "subnet": "10.0.0.0/24"}}`)}
	c.policies = []*v1alpha1.NodePolicy{policy("p", 0, 3, "a")}
	m.look(t)
	s := m.look(t)
	if len(s.AddressRequests) != 1 || s.AddressRequests[0].Grant == "" {
		t.Fatalf("%+v", s.AddressRequests)
	}
	id := s.AddressRequests[0].Grant
	pool := &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "net"}, Spec: v1alpha1.AddressPoolSpec{
		Network: "d/net", Blocks: []v1alpha1.AddressBlock{{Node: "n1", NodeUID: "uid", Grant: id, First: "10.0.0.2", Last: "10.0.0.9"}},
		Wanted: []string{"10.0.0.3", "10.0.0.5"},
	}}
	c.pools = []*v1alpha1.AddressPool{pool}
	err := m.Node.Ledger.Update(func(tx *journal.Tx) error {
		return tx.HoldAddress(journal.Address{Network: "d/net", Addr: netip.MustParseAddr("10.0.0.5")})
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "[{" + id + " {10.0.0.3 10.0.0.3}}]"
	for range 2 {
		r := m.look(t).AddressRequests[0]
		if got := fmt.Sprint(r.Released); got != want {
			t.Errorf("released %s, want %s", got, want)
		}
		if r.Grant == id || r.Grant == "" {
			t.Errorf("I4: blocks are requested under %q, of which addresses were given back", r.Grant)
		}
		select {
		case <-m.urgent:
		default:
			t.Error("a pod of another node waits, and it is written at leisure")
		}
		again := New(m.Config)
		again.nodeUID, again.usable = m.nodeUID, usable{}
		m = again
	}
	var kept []string
	_ = m.Node.Ledger.View(func(tx *journal.Tx) error {
		for _, g := range tx.Grants("d/net") {
			if g.ID == id {
				kept = append(kept, fmt.Sprint(g.Runs))
			}
		}
		return nil
	})
	if !slices.Equal(kept, []string{"[{10.0.0.2 10.0.0.2} {10.0.0.4 10.0.0.9}]"}) {
		t.Errorf("I4: the ledger keeps %v", kept)
	}
}

// The node gives back blocks whose grant is not in its ledger, but not while VFs that are not in
// the ledger may be in use: the ledger may be a new one.
func TestUnknownGrantsGoBack(t *testing.T) {
	m, c := joined(t)
	c.pools = []*v1alpha1.AddressPool{{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1alpha1.AddressPoolSpec{
		Network: "n", Blocks: []v1alpha1.AddressBlock{{Node: "n1", NodeUID: "uid", Grant: "lost", First: "10.0.0.2", Last: "10.0.0.9"}},
	}}}
	m.readPools()
	for _, tc := range []struct {
		n    api.NodeStatus
		want string
	}{
		{api.NodeStatus{Ready: true, VFs: []api.VF{{Phase: api.PhaseUnmanaged}}}, ""},
		{api.NodeStatus{}, ""},
		{api.NodeStatus{Ready: true, PFs: []api.PF{{PF: vf.PF{Err: "PF 0000:01:00.0: no answer within 5s", Vendor: "8086"}, WantedVFs: new(int)}}}, ""},
		{api.NodeStatus{Ready: true, PFs: []api.PF{{PF: vf.PF{Err: "PF 0000:01:00.0: no answer within 5s"}}}}, ""},
		{api.NodeStatus{Ready: true, PFs: []api.PF{{PF: vf.PF{Err: "no driver is bound", Vendor: "15b3"}}}}, "[{lost {10.0.0.2 10.0.0.9}}]"},
		{api.NodeStatus{Ready: true}, "[{lost {10.0.0.2 10.0.0.9}}]"},
	} {
		s, err := m.buildState(tc.n, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, r := range s.AddressRequests {
			got += fmt.Sprint(r.Released)
		}
		if got != tc.want {
			t.Errorf("ready %t, %d VFs: released %s, want %s", tc.n.Ready, len(tc.n.VFs), got, tc.want)
		}
	}
}
