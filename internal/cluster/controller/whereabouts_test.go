package controller

import (
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
