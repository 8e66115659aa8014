package attach_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/kernel/fake"
	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// I9: a request waits for the first address of a pool. It is refused as soon as the pool is there and
// does not admit the network's namespace, although the node has a block. It leaves no lease.
func TestI9PoolThatComesDoesNotAdmitTheNamespace(t *testing.T) {
	const pool = "whereabouts:blue"
	for namespace, want := range map[string]string{"owner": "10.1.0.1/29", "d": "network blue: AddressPool whereabouts-blue."} {
		asked := make(chan struct{}, 1)
		book := blocks.NewBook("here", func() {
			select {
			case asked <- struct{}{}:
			default:
			}
		})
		k := fake.New(fake.IGB, 2)
		k.AddNetns(podNetns)
		n := startIn(t, machine{k, faulty.New(k)}, book)
		if err := n.Ledger.Update(func(tx *journal.Tx) error { return tx.PutGrant(journal.Grant{Network: pool, ID: "g"}) }); err != nil {
			t.Fatal(err)
		}
		var g errgroup.Group
		g.Go(func() error {
			<-asked
			block := blocks.Block{Run: ipam.Run{First: netip.MustParseAddr("10.1.0.1"), Last: netip.MustParseAddr("10.1.0.6")}, Node: "here", Grant: "g"}
			book.SetPools([]blocks.View{{Pool: blocks.Pool{Network: pool, Namespaces: []string{"owner"}, Blocks: []blocks.Block{block}}}})
			return nil
		})
		req := from(t, `{"type":"host-local","subnet":"10.1.0.0/29","gateway":"10.1.0.6"}`, 1)
		req.AddressPool, req.NetworkNamespace = pool, namespace
		rec, err := n.Engine.Attach(t.Context(), req)
		_ = g.Wait()
		got := rec.Lease.Wanted.Addresses
		switch {
		case namespace == "owner" && (err != nil || len(got) != 1 || got[0].Prefix.String() != want):
			t.Errorf("the owner: %v, %v", got, err)
		case namespace != "owner" && (!errors.Is(err, vf.ErrInvalid) || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("I9: namespace %s: %v, %v", namespace, got, err)
		}
		_ = n.Ledger.View(func(tx *journal.Tx) error {
			if held := tx.AddressesOf(""); (len(held) == 1) != (namespace == "owner") {
				t.Errorf("I9: namespace %s: the ledger holds %v", namespace, held)
			}
			return nil
		})
	}
}
