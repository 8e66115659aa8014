package pod_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/node/journal"
)

// withPool gives the node a block of the pool of whereabouts networks with a network_name, which
// admits namespaces.
func (w *world) withPool(name string, namespaces ...string) {
	w.Helper()
	run := ipam.Run{First: netip.MustParseAddr("10.1.0.1"), Last: netip.MustParseAddr("10.1.0.6")}
	book := blocks.NewBook("here", func() {})
	book.SetPools([]blocks.View{{Pool: blocks.Pool{Network: "whereabouts:" + name, Namespaces: namespaces, Blocks: []blocks.Block{{Run: run, Node: "here", Grant: "g"}}}}})
	w.node.Engine.Blocks = book
	err := w.ledger.Update(func(tx *journal.Tx) error {
		return tx.PutGrant(journal.Grant{Network: "whereabouts:" + name, ID: "g"})
	})
	if err != nil {
		w.Fatal(err)
	}
}

// whereabouts is a network with a range of whereabouts and a network_name.
func whereabouts(name string) string {
	return tenant(fmt.Sprintf(`{"type":"whereabouts","range":"10.1.0.0/29","network_name":%q}`, name))
}

// I9: a network of whereabouts with a network_name has addresses of that pool only if the pool
// admits its namespace. Other networks of the name are refused, beside Multus too, and get no VF.
// The network of a file has the pool of a name that belongs to no namespace.
func TestI9WhereaboutsPoolNeedsConsent(t *testing.T) {
	const refused = "does not admit namespace d: add the namespace to its spec.namespaces"
	for name, tc := range map[string]struct {
		network    string // that joins
		config     string
		pool       string
		namespaces []string
		want       string
	}{
		"the owner":                        {"owner/net", whereabouts("blue"), "blue", []string{"owner"}, ""},
		"another of the owner's":           {"owner/second", whereabouts("blue"), "blue", []string{"owner"}, ""},
		"a person added the namespace":     {"d/net", whereabouts("blue"), "blue", []string{"owner", "d"}, ""},
		"nobody added it":                  {"d/net", whereabouts("blue"), "blue", []string{"owner"}, refused},
		"by another spelling":              {"d/net", tenant(`{"type":"whereabouts","range":"10.1.0.0/29","network_n\u0061me":"bl\u0075e"}`), "blue", []string{"owner"}, refused},
		"by a key in another case":         {"d/net", tenant(`{"type":"whereabouts","range":"10.1.0.0/29","Network_Name":"blue"}`), "blue", []string{"owner"}, refused},
		"no namespace owns it":             {"d/net", whereabouts("blue"), "blue", nil, refused},
		"a file, and no namespace owns it": {"d/file", "", "blue", nil, ""},
		"a file, and a namespace owns it":  {"d/file", "", "blue", []string{"owner"}, "does not admit the network of a file"},
		"the pool of all":                  {"d/net", whereabouts(""), "", nil, ""},
		"the pool of all, for some":        {"d/net", whereabouts(""), "", []string{"owner"}, refused},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.withPool(tc.pool, tc.namespaces...)
			w.network(tc.network, tc.config)
			w.file("50-file.conf", strings.Replace(whereabouts(tc.pool), "same", "file", 1))
			w.asks(tc.network)
			if tc.want != "" {
				if got := w.refused(); !strings.Contains(got, tc.want) {
					t.Errorf("I9: %q, want %q", got, tc.want)
				}
				w.wantHeld()
				return
			}
			w.add()
			w.wantHeld("whereabouts:" + tc.pool + " 10.1.0.1")
		})
	}
}

// I9: beside Multus the annotation of the pod says of which namespace the network is. A pod whose
// annotation leaves that open is refused for the pool of a network_name, and for no other.
func TestI9WhereaboutsPoolBesideMultus(t *testing.T) {
	for name, tc := range map[string]struct {
		asks, ifName, pool string
		namespaces         []string
		want, refused      string
	}{
		"the owner's":                {"owner/net,d/net", "net1", "blue", []string{"owner"}, "whereabouts:blue 10.1.0.1", ""},
		"another's":                  {"owner/net,d/net", "net2", "blue", []string{"owner"}, "", "does not admit namespace d"},
		"by its configuration":       {"owner/net", "net7", "blue", []string{"owner"}, "whereabouts:blue 10.1.0.1", ""},
		"either may be meant":        {"owner/net,d/net", "net7", "blue", []string{"owner"}, "", "does not say which NetworkAttachmentDefinition"},
		"Multus' own":                {"", "net1", "blue", []string{"owner"}, "", "does not admit the network of a file"},
		"either, in the pool of all": {"owner/net,d/net", "net7", "", nil, "whereabouts: 10.1.0.1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.withPool(tc.pool, tc.namespaces...)
			w.network("owner/net", whereabouts(tc.pool))
			w.network("d/net", whereabouts(tc.pool))
			w.asks(tc.asks)
			got := w.delegate(tc.ifName, whereabouts(tc.pool))
			if (tc.refused == "") != (got == "") || !strings.Contains(got, tc.refused) {
				t.Errorf("I9: %q, want %q", got, tc.refused)
			}
			if tc.want == "" {
				w.wantHeld()
			} else {
				w.wantHeld(tc.want)
			}
		})
	}
}
