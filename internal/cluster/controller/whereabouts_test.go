package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
)

// definedAs is the NetworkAttachmentDefinition of a network, namespace/name, with a configuration.
// It was made at a second.
func definedAs(t *testing.T, network, config string, second int64) *unstructured.Unstructured {
	t.Helper()
	namespace, name, _ := strings.Cut(network, "/")
	u := definitionOf(namespace, name, "")
	u.SetCreationTimestamp(metav1.Unix(second, 0))
	if err := unstructured.SetNestedField(u.Object, config, "spec", "config"); err != nil {
		t.Fatal(err)
	}
	return u
}

// whereaboutsOf is the configuration of a plugin with a whereabouts range, and other keys.
func whereaboutsOf(plugin, addresses, more string) string {
	return `{"cniVersion": "1.0.0", "name": "n", "type": "` + plugin + `", "ipam": {"type": "whereabouts", "range": "` + addresses + `"` + more + `}}`
}

// requestingOf is a node's state that requests ranges of a pool, and uses some addresses.
func requestingOf(node, pool string, used int64, ranges ...ipam.Run) *v1alpha1.NodeState {
	s := asking(node, 0)
	s.Status.AddressRequests = blocks.ToObject([]blocks.Request{{Network: pool, Ranges: ranges, Used: used}})
	return s
}

// withForeign has a controller leave out the addresses that pods have.
func withForeign(t *testing.T, c client.Client, a *Addresses) *Addresses {
	t.Helper()
	a.Foreign = (&foreignAddresses{live: &unendedOnly{Reader: c, t: t}, now: time.Now}).ofPool
	return a
}

// I4: whereabouts goes, and the pods that have its addresses run on. No node is granted one of
// these, whichever plugin the pods' networks have.
func TestI4WhereaboutsGoes(t *testing.T) {
	const addresses28 = "10.5.0.0/28"
	status := func(network, address string) string {
		return `[{"name":"cbr0","ips":["10.5.0.9"],"default":true},{"name":"` + network + `","interface":"net1","ips":["` + address + `"]}]`
	}
	defaultNetwork := attached("red", "default-network", "", `[{"name":"kube-system/w","interface":"eth0","default":true,"ips":["10.5.0.8"]}]`)
	defaultNetwork.Annotations["v1.multus-cni.io/default-network"] = "w"
	many := attached("red", "many", "w,w,w,w,w", `[{"name":"red/w","ips":["10.5.0.10","fd00::1"]},{"name":"red/w","ips":["fd00::2","fd00::3"]},
		{"name":"red/w","ips":["fd00::4","fd00::5"]},{"name":"red/w","ips":["fd00::6","fd00::7"]},{"name":"red/w","ips":["fd00::8","10.5.0.11"]}]`)
	c := newCluster(newNode("a", nil), requestingOf("a", "whereabouts:", 14, run("10.5.0.1", "10.5.0.14")),
		definedAs(t, "red/w", whereaboutsOf("sriov", addresses28, ""), 0),
		definedAs(t, "kube-system/w", whereaboutsOf("sriov", addresses28, ""), 0),
		definedAs(t, "blue/m", `{"cniVersion": "1.0.0", "name": "m", "plugins": [{"type": "tuning"}, `+whereaboutsOf("macvlan", addresses28, "")+`]}`, 0),
		definedAs(t, "blue/named", whereaboutsOf("sriov", addresses28, `, "network_name": "blue"`), 0),
		definedAs(t, "blue/apart", `{"cniVersion": "1.0.0", "name": "apart", "type": "sriov", "ipam": {"type": "host-local", "subnet": "10.5.0.0/28"}}`, 0),
		definedAs(t, "red/file", " ", 0),
		attached("red", "of-culverts-plugin", "w", status("red/w", "10.5.0.1")),
		attached("blue", "of-another-namespace", "red/w@vf1", status("w", "10.5.0.2")),
		attached("blue", "of-another-plugin", "m", status("blue/m", "10.5.0.3")),
		attached("blue", "of-a-network-name", "named", status("blue/named", "10.5.0.4")),
		attached("blue", "of-another-ipam", "apart", status("blue/apart", "10.5.0.5")),
		attached("red", "of-a-file", "file", status("red/file", "10.5.0.6")),
		attached("red", "of-a-deleted-network", "gone", status("red/gone", "10.5.0.7")),
		defaultNetwork, many,
	)
	a := withForeign(t, c, addresses(c, time.Now()))
	lookAt(t, a, "whereabouts:")
	want := []string{"a 10.5.0.4-10.5.0.5", "a 10.5.0.9-10.5.0.9", "a 10.5.0.12-10.5.0.14"}
	if diff := cmp.Diff(want, show(getPool(t, c, v1alpha1.AddressPoolName("whereabouts:")))); diff != "" {
		t.Errorf("I4: -want +got:\n%s", diff)
	}
}

// I10: a node gets no address of a whereabouts pool that no network declares.
func TestI10WhereaboutsPoolsAreConfined(t *testing.T) {
	const foreign = "10.9.0.0/24"
	wide := run("10.5.0.1", "10.5.0.254")
	networks := []client.Object{
		definedAs(t, "red/w", whereaboutsOf("sriov", "10.5.0.0/28", ""), 1), definedAs(t, "blue/w", whereaboutsOf("culvert", "10.6.0.0/29", ""), 2),
		definedAs(t, "blue/same", whereaboutsOf("sriov", "10.5.0.0/28", ""), 3), definedAs(t, "blue/m", whereaboutsOf("macvlan", foreign, ""), 4),
		definedAs(t, "red/named", whereaboutsOf("sriov", "10.7.0.0/29", `, "network_name": "red"`), 5),
		definedAs(t, "evil/named", whereaboutsOf("sriov", foreign, `, "network_name": "red"`), 6),
		definedAs(t, "red/bad", whereaboutsOf("sriov", "10.5.0.0/33", ""), 7),
	}
	for name, tc := range map[string]struct {
		pool    string
		ranges  []ipam.Run
		more    []client.Object
		granted []string
	}{
		"of a network":                   {pool: "whereabouts:", ranges: []ipam.Run{run("10.5.0.1", "10.5.0.14")}, granted: []string{"a 10.5.0.1-10.5.0.14"}},
		"of another network":             {pool: "whereabouts:", ranges: []ipam.Run{run("10.6.0.1", "10.6.0.6")}, granted: []string{"a 10.6.0.1-10.6.0.6"}},
		"of a plugin that is not ours":   {pool: "whereabouts:", ranges: []ipam.Run{run("10.9.0.1", "10.9.0.254")}},
		"of no network":                  {pool: "whereabouts:", ranges: []ipam.Run{wide}},
		"of a network_name":              {pool: "whereabouts:red", ranges: []ipam.Run{run("10.7.0.1", "10.7.0.6")}, granted: []string{"a 10.7.0.1-10.7.0.6"}},
		"without consent of the owner":   {pool: "whereabouts:red", ranges: []ipam.Run{run("10.9.0.1", "10.9.0.254")}},
		"of a network_name that is none": {pool: "whereabouts:none", ranges: []ipam.Run{wide}},
		"of a name with a slash":         {pool: "whereabouts:red/named", ranges: []ipam.Run{run("10.7.0.1", "10.7.0.6")}},
		"a file may have more": {pool: "whereabouts:", ranges: []ipam.Run{run("10.9.0.1", "10.9.0.6")}, more: []client.Object{definedAs(t, "red/file", "", 8)},
			granted: []string{"a 10.9.0.1-10.9.0.6"}},
		"no file has the pool of an owner": {pool: "whereabouts:red", ranges: []ipam.Run{wide}, more: []client.Object{definedAs(t, "red/file", "", 8)}},
		"a file has a name of its own": {pool: "whereabouts:none", ranges: []ipam.Run{run("10.9.0.1", "10.9.0.6")}, more: []client.Object{definedAs(t, "red/file", "", 8)},
			granted: []string{"a 10.9.0.1-10.9.0.6"}},
	} {
		c := newCluster(append(slices.Concat(networks, tc.more), newNode("a", nil), requestingOf("a", tc.pool, 250, tc.ranges...))...)
		lookAt(t, withForeign(t, c, addresses(c, time.Now())), tc.pool)
		var granted []string
		var pools v1alpha1.AddressPoolList
		if err := c.List(t.Context(), &pools); err != nil {
			t.Fatal(err)
		}
		for i := range pools.Items {
			granted = append(granted, show(&pools.Items[i])...)
		}
		if diff := cmp.Diff(tc.granted, granted); diff != "" {
			t.Errorf("I10: %s (-want +got):\n%s", name, diff)
		}
	}
}

// I9: the oldest network with a network_name owns its pool, and keeps it when its definition is made
// anew. Networks of other namespaces wait for a person, who adds their namespace.
func TestI9OwnerOfAWhereaboutsPool(t *testing.T) {
	const pool = "whereabouts:blue"
	named := func(addresses string) string { return whereaboutsOf("sriov", addresses, `, "network_name": "blue"`) }
	theirs := []ipam.Run{run("10.6.0.1", "10.6.0.6")}
	c := newCluster(newNode("a", nil), newNode("b", nil), requestingOf("a", pool, 0, run("10.5.0.1", "10.5.0.6")), requestingOf("b", pool, 0, theirs...),
		definedAs(t, "evil/n", named("10.6.0.0/29"), 20), definedAs(t, "infra/n", named("10.5.0.0/29"), 10),
		definedAs(t, "bare/n", whereaboutsOf("sriov", "10.6.0.0/29", ""), 1), definedAs(t, "linux/n", whereaboutsOf("macvlan", "10.6.0.0/29", `, "network_name": "blue"`), 2))
	now := time.Unix(1000, 0)
	a := addresses(c, now)
	a.Now = func() time.Time { return now }
	object := func() *v1alpha1.AddressPool { return getPool(t, c, v1alpha1.AddressPoolName(pool)) }
	check := func(when string, namespaces, want []string) {
		t.Helper()
		now = now.Add(time.Minute)
		lookAt(t, a, pool)
		o := object()
		if diff := cmp.Diff(namespaces, o.Spec.Namespaces); diff != "" {
			t.Errorf("I9: %s: namespaces, -want +got:\n%s", when, diff)
		}
		if diff := cmp.Diff(want, show(o)); diff != "" {
			t.Errorf("I10: %s: -want +got:\n%s", when, diff)
		}
	}
	check("at first", []string{"infra"}, []string{"a 10.5.0.1-10.5.0.1"})
	anew := definedAs(t, "infra/n", named("10.5.0.0/29"), 30)
	if err := c.Delete(t.Context(), definitionOf("infra", "n", "")); err != nil {
		t.Fatal(err)
	}
	check("while the owner's network is deleted", []string{"infra"}, []string{"a 10.5.0.1-10.5.0.1"})
	if err := c.Create(t.Context(), anew); err != nil {
		t.Fatal(err)
	}
	check("when it is made anew", []string{"infra"}, []string{"a 10.5.0.1-10.5.0.1"})
	o := object()
	o.Spec.Namespaces = append(o.Spec.Namespaces, "evil")
	if err := c.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	check("with the consent of a person", []string{"infra", "evil"}, []string{"a 10.5.0.1-10.5.0.1", "b 10.6.0.1-10.6.0.1"})
}

// I9: a pool that an earlier version made gets its owner without a request: until then nodes refuse
// its networks. A network that came after the pool does not own it: nodes have the network of a file.
func TestI9OwnerOfAPoolThatIsThere(t *testing.T) {
	for second, want := range map[int64][]string{10: {"red"}, 100: {"red"}, 101: nil} {
		there := &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AddressPoolName("whereabouts:x"), CreationTimestamp: metav1.Unix(100, 0)}}
		there.Spec.Network = "whereabouts:x"
		c := newCluster(newNode("a", nil), there, definedAs(t, "red/n", whereaboutsOf("sriov", "10.5.0.0/29", `, "network_name": "x"`), second))
		lookAt(t, addresses(c, time.Now()), "whereabouts:x")
		if diff := cmp.Diff(want, getPool(t, c, there.Name).Spec.Namespaces); diff != "" {
			t.Errorf("I9: a network of second %d (-want +got):\n%s", second, diff)
		}
	}
}

// The controller lists the networks anew before it refuses a request: a node may know a network
// that the last list lacks.
func TestNewWhereaboutsNetworkIsServed(t *testing.T) {
	c := newCluster(newNode("a", nil), definedAs(t, "red/w", whereaboutsOf("sriov", "10.5.0.0/29", ""), 1), requestingOf("a", "whereabouts:", 0, run("10.5.0.1", "10.5.0.6")))
	a := addresses(c, time.Now())
	lookAt(t, a, "whereabouts:")
	if err := c.Create(t.Context(), definedAs(t, "blue/w", whereaboutsOf("sriov", "10.6.0.0/29", ""), 2)); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), newNode("b", nil)); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), requestingOf("b", "whereabouts:", 0, run("10.6.0.1", "10.6.0.6"))); err != nil {
		t.Fatal(err)
	}
	lookAt(t, a, "whereabouts:")
	if diff := cmp.Diff([]string{"a 10.5.0.1-10.5.0.1", "b 10.6.0.1-10.6.0.1"}, show(getPool(t, c, v1alpha1.AddressPoolName("whereabouts:")))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// I9: the webhook warns of a network whose network_name belongs to another namespace, as soon as the
// pool is there.
func TestI9WebhookWarnsOfAForeignPool(t *testing.T) {
	pool := &v1alpha1.AddressPool{Spec: v1alpha1.AddressPoolSpec{Network: "whereabouts:blue", Namespaces: []string{"red"}}}
	pool.Name = v1alpha1.AddressPoolName(pool.Spec.Network)
	for name, tc := range map[string]struct {
		namespace, networkName, want string
	}{
		"the owner's":  {"red", "blue", ""},
		"of nobody":    {"tenant", "green", ""},
		"of all":       {"tenant", "", ""},
		"of the owner": {"tenant", "blue", "pods are refused: AddressPool " + pool.Name + ": invalid: it does not admit namespace tenant: add the namespace to its spec.namespaces, or give the network another ipam.network_name"},
	} {
		config := whereaboutsOf("sriov", "10.5.0.0/29", `, "network_name": "`+tc.networkName+`"`)
		got := (&networks{client: newCluster(pool.DeepCopy())}).Handle(t.Context(), request(fmt.Sprintf(`{"metadata":{"namespace":%q,"name":"n"},"spec":{"config":%q}}`, tc.namespace, config)))
		if said := strings.Join(got.Warnings, "; "); !got.Allowed || said != tc.want {
			t.Errorf("I9: %s: allowed %t, warnings %q, want %q", name, got.Allowed, said, tc.want)
		}
	}
}
