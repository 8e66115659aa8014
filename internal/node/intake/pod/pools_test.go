package pod_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// held returns the addresses of the ledger with their pools.
func (w *world) held() (out []string) {
	_ = w.ledger.View(func(tx *journal.Tx) error {
		for _, a := range tx.AddressesOf("") {
			out = append(out, a.Network+" "+a.Addr.String())
		}
		return nil
	})
	slices.Sort(out)
	return out
}

func (w *world) wantHeld(want ...string) {
	w.Helper()
	if got := w.held(); !slices.Equal(got, want) {
		w.Errorf("I4: the ledger holds %q, want %q", got, want)
	}
}

// delegate carries out an ADD of Multus for one interface of pod d/a. It returns the text of a
// refusal.
func (w *world) delegate(ifName, config string) string {
	w.Helper()
	if resp := w.asDelegate(ifName, config); resp.Exit != 0 {
		return string(resp.Stdout)
	}
	return ""
}

// delegated carries out an ADD of Multus that has to succeed, and returns the result.
func (w *world) delegated(ifName, config string) []byte {
	w.Helper()
	resp := w.asDelegate(ifName, config)
	if resp.Exit != 0 {
		w.Fatalf("ADD of %s: %s", ifName, resp.Stdout)
	}
	return resp.Stdout
}

func (w *world) asDelegate(ifName, config string) api.CNIResponse {
	w.Helper()
	return w.callAs(context.Background(), api.CNIRequest{
		Command: "ADD", ContainerID: "c1", IfName: ifName, Netns: "/run/netns/c1",
		Args: "IgnoreUnknown=true;K8S_POD_NAMESPACE=d;K8S_POD_NAME=a;K8S_POD_UID=u1", Config: []byte(config),
	})
}

const section = `{"type":"host-local","scope":"node","subnet":"10.1.0.0/24"%s}`

func tenant(ipam string) string {
	return fmt.Sprintf(`{"type":"sriov","cniVersion":"0.3.1","name":"same","ipam":%s}`, ipam)
}

// I4: networks of two namespaces with one CNI name have a pool each. A network that a file on the
// node describes keeps the pool of its CNI name.
func TestI4PoolsOfTwoTenants(t *testing.T) {
	w := newWorld(t)
	w.network("red/net", tenant(fmt.Sprintf(section, "")))
	w.network("blue/net", tenant(fmt.Sprintf(section, "")))
	w.network("file", "")
	w.file("50-file.conf", `{"type":"sriov","cniVersion":"0.3.1","name":"file","ipam":{"type":"host-local","scope":"node","subnet":"10.2.0.0/24"}}`)
	w.asks("red/net,blue/net,file")
	w.add()
	w.wantHeld("blue/net 10.1.0.2", "file 10.2.0.2", "red/net 10.1.0.2")
}

// I4: a request of Multus does not name its NetworkAttachmentDefinition. The annotation of
// the pod does, or the pod is refused.
func TestI4PoolsBesideMultus(t *testing.T) {
	config, other := tenant(fmt.Sprintf(section, "")), tenant(fmt.Sprintf(section, `,"gateway":"10.1.0.9"`))
	for name, tc := range map[string]struct {
		asks, ifName, config, want, refused string
	}{
		"by its interface":              {"red/net,blue/net", "net2", config, "blue/net 10.1.0.2", ""},
		"by a name that was asked for":  {"red/net,blue/net@x", "x", config, "blue/net 10.1.0.2", ""},
		"behind networks of Multus":     {"red/net", "net2", config, "red/net 10.1.0.2", ""},
		"a network of Multus":           {"red/net@x", "net1", other, "same 10.1.0.1", ""},
		"two that may be meant":         {"red/net,blue/net", "net3", config, "", "does not say which NetworkAttachmentDefinition"},
		"it was changed a moment ago":   {"red/net", "net1", other, "", "does not say which NetworkAttachmentDefinition"},
		"it was deleted a moment ago":   {"gone/net", "net1", config, "", "gone/net"},
		"a file":                        {"file", "net1", config, "same 10.1.0.2", ""},
		"an annotation without meaning": {"@", "net1", config, "", "annotation"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.network("red/net", config)
			w.network("blue/net", config)
			w.network("file", "")
			w.asks(tc.asks)
			got := w.delegate(tc.ifName, tc.config)
			if (tc.refused == "") != (got == "") || !strings.Contains(got, tc.refused) {
				t.Errorf("%q, want %q", got, tc.refused)
			}
			if tc.want == "" {
				w.wantHeld()
			} else {
				w.wantHeld(tc.want)
			}
		})
	}
}

// The default network that an annotation names has the pool of its definition too.
func TestI4PoolOfADefaultNetwork(t *testing.T) {
	w := newWorld(t)
	w.network("kube-system/net", tenant(fmt.Sprintf(section, "")))
	w.pod(map[string]string{"v1.multus-cni.io/default-network": "net"})
	if got := w.delegate("eth0", tenant(fmt.Sprintf(section, ""))); got != "" {
		t.Fatal(got)
	}
	w.wantHeld("kube-system/net 10.1.0.2")
}

// I9: a network shares the pool of another network if the author of the other one names its
// namespace. It has the addresses of the other network, and none of its own. To another namespace a
// refusal does not say whether the other network is there, or can be read.
func TestI9PoolIsSharedByConsent(t *testing.T) {
	const owner = "owner/net"
	for name, tc := range map[string]struct {
		joining, section, sharedWith, want string
	}{
		"named":                {"d/net", owner, `["x","d"]`, ""},
		"of the same":          {"owner/second", owner, `[]`, ""},
		"not named":            {"d/net", owner, `["x"]`, "that network does not share its addresses with namespace d"},
		"nobody is named":      {"d/net", owner, `[]`, "that network does not share its addresses with namespace d"},
		"no such network":      {"d/net", "owner/other", `["d"]`, "that network does not share its addresses with namespace d"},
		"none in its own":      {"d/net", "d/other", `["d"]`, "NetworkAttachmentDefinition d/other"},
		"of one that shares":   {"d/net", "d/net", `["d"]`, "that network has no addresses of its own"},
		"it is no name":        {"d/net", "owner", `["d"]`, "want namespace/name"},
		"the owner is unclear": {"d/net", owner, `["*"]`, "that network does not share its addresses with namespace d"},
		"unclear, of the same": {"owner/second", owner, `["*"]`, "want the name of a namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.network(owner, tenant(fmt.Sprintf(section, `,"sharedWith":`+tc.sharedWith)))
			w.network(tc.joining, tenant(fmt.Sprintf(`{"type":"culvert","poolOf":%q}`, tc.section)))
			w.asks(tc.joining)
			if tc.want == "" {
				w.add()
				w.wantHeld("owner/net 10.1.0.2")
				return
			}
			if got := w.refused(); !strings.Contains(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
			w.wantHeld()
		})
	}
}

// declaredPools has the AddressPools that a person declared.
type declaredPools struct{ sections map[string]ipam.Config }

func (p declaredPools) Section(c ipam.Config, namespace string) (ipam.Config, string, error) {
	pool, ok := p.sections[namespace+" "+c.AddressPool]
	if !ok {
		return c, "", fmt.Errorf("AddressPool %s: %w", c.AddressPool, vf.ErrInvalid)
	}
	c, err := c.WithPool(pool)
	return c, "pool:" + c.AddressPool, err
}

// I4: networks of two namespaces that name one AddressPool never give one address twice, and a
// pod gets an address of each family. An address by name is of the pool, too.
func TestI4NetworksNameAnAddressPool(t *testing.T) {
	w := newWorld(t)
	pool, err := ipam.ParseSubnets([]ipam.SubnetText{{CIDR: "10.9.0.0/24", Exclude: []string{"10.9.0.2"}}, {CIDR: "fd09::/64"}})
	if err != nil {
		t.Fatal(err)
	}
	w.single.Pools = declaredPools{map[string]ipam.Config{"red storage": pool, "blue storage": pool}}
	const naming = `{"type":"culvert","addressPool":"storage"}`
	w.network("red/net", tenant(naming))
	w.network("blue/net", tenant(naming))
	w.network("green/net", tenant(naming))
	w.asks("green/net")
	if got := w.refused(); !strings.Contains(got, "network green/net: AddressPool storage: invalid") {
		t.Errorf("namespace green: %q", got)
	}
	w.asks("red/net,blue/net")
	w.add()
	w.wantHeld("pool:storage 10.9.0.3", "pool:storage 10.9.0.4", "pool:storage fd09::2", "pool:storage fd09::3")
}

func TestAddressPoolNeedsACluster(t *testing.T) {
	w := newWorld(t)
	w.network("red/net", tenant(`{"type":"culvert","addressPool":"storage"}`))
	w.asks("red/net")
	if got := w.refused(); !strings.Contains(got, "culvertd is not connected to a cluster") {
		t.Errorf("%q", got)
	}
}

// A pod says for how long its address is kept for its name after it has ended, and the
// AddressPool bounds that.
func TestPodKeepsItsAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		annotation string
		atMost     time.Duration
		want       time.Duration
		refused    string
		event      bool
	}{
		"not asked for":       {"", time.Hour, 0, "", false},
		"as long as it asks":  {"10m", time.Hour, 10 * time.Minute, "", false},
		"as long as it may":   {"2h", time.Hour, time.Hour, "", true},
		"the pool keeps none": {"10m", 0, 0, "", true},
		"no time":             {"forever", time.Hour, 0, "annotation culvert.dev/keep-address", false},
		"less than none":      {"-1h", time.Hour, 0, "annotation culvert.dev/keep-address", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			pool, err := ipam.ParseSubnets([]ipam.SubnetText{{CIDR: "10.9.0.0/24"}})
			if err != nil {
				t.Fatal(err)
			}
			pool.KeepAtMost = tc.atMost
			w.single.Pools = declaredPools{map[string]ipam.Config{"d storage": pool}}
			w.network("d/net", tenant(`{"type":"culvert","addressPool":"storage"}`))
			w.pod(map[string]string{"k8s.v1.cni.cncf.io/networks": "net", "culvert.dev/keep-address": tc.annotation})
			if tc.refused != "" {
				if got := w.refused(); !strings.Contains(got, tc.refused) {
					t.Errorf("%q, want %q", got, tc.refused)
				}
				return
			}
			w.add()
			_ = w.ledger.View(func(tx *journal.Tx) error {
				if all := tx.AddressesOf(""); len(all) != 1 || all[0].Keep != tc.want {
					t.Errorf("the ledger has %+v, want %s", all, tc.want)
				}
				return nil
			})
			told := slices.ContainsFunc(w.cluster.events, func(e string) bool { return strings.Contains(e, "AddressKeptShorter") })
			if told != tc.event {
				t.Errorf("events %q", w.cluster.events)
			}
		})
	}
}
