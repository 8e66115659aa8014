package sources

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// newSet returns the Set of a node with the given PFs, which the reconciler has no problem
// with.
func newSet(pfs ...vf.PF) (*Set, *Current) {
	current := &Current{}
	s := NewSet(current, func() []vf.PF { return pfs }, func() []api.Problem { return nil })
	return s, current
}

func poolNames(spec desired.Spec) (out []string) {
	for _, p := range spec.Pools {
		out = append(out, p.FullName())
	}
	return out
}

// resources returns the plugin's configuration with resources of the given names. An entry that
// begins with { stays as it is.
func resources(entries ...string) string {
	var all []string
	for _, e := range entries {
		if !strings.HasPrefix(e, "{") {
			e = `{"resourceName": "` + e + `", "selectors": {"vendors": ["8086"]}}`
		}
		all = append(all, e)
	}
	return `{"resourceList": [` + strings.Join(all, ", ") + `]}`
}

// The node serves the resources of the device plugin's ConfigMap. A key of the node's name comes
// before config.json, keys of other nodes do not count, and content that cannot be read leaves the
// node as it is. The problems and the NodeState's condition say what is not served.
func TestDevicePluginConfigMap(t *testing.T) {
	const accelerator = `{"resourceName": "fpga", "deviceType": "accelerator"}`
	s, current := newSet()
	s.DevicePlugin.Node = "n1"
	for _, tt := range []struct { // each starts from the one before
		name     string
		data     map[string]string
		pools    []string
		problems []string // object: a part of the reason
		status   metav1.ConditionStatus
		reason   string
		message  string
	}{
		{"a ConfigMap", map[string]string{"config.json": resources("a", "b")}, []string{"intel.com/a", "intel.com/b"}, nil, metav1.ConditionTrue, "Read", "resources: 2"},
		{"a key of the node", map[string]string{"config.json": resources("a"), "n1": resources("own")}, []string{"intel.com/own"}, nil, metav1.ConditionTrue, "Read", "resources: 1"},
		{
			"not a list", map[string]string{"config.json": "[]"}, []string{"intel.com/own"},
			[]string{"ConfigMap kube-system/sriovdp-config: sriovdp-config/config.json"}, metav1.ConditionFalse, "Invalid", "ConfigMap kube-system/sriovdp-config: ",
		},
		{
			"no key", map[string]string{}, []string{"intel.com/own"},
			[]string{"ConfigMap kube-system/sriovdp-config: it has no key config.json"}, metav1.ConditionFalse, "Invalid", "it has no key config.json",
		},
		{"keys of other nodes", map[string]string{"n2": resources("a")}, nil, nil, metav1.ConditionTrue, "Read", "resources: 0"},
		{
			"a resource that Culvert does not serve", map[string]string{"config.json": resources("a", accelerator)}, []string{"intel.com/a", "intel.com/fpga"},
			[]string{"pool intel.com/fpga: it is not served: "}, metav1.ConditionFalse, "NotAllServed", "resources: 1; intel.com/fpga is not served: ",
		},
		{
			"an unknown key", map[string]string{"config.json": resources("a", `{"resourceName": "b", "selectors": {"vendors": ["8086"]}, "selector": {}}`)}, []string{"intel.com/a", "intel.com/b"},
			[]string{"ConfigMap kube-system/sriovdp-config: sriovdp-config/config.json:1: resourceList[1].selector: unknown key"}, metav1.ConditionTrue, "Read", "resources: 2; sriovdp-config/config.json:1: ",
		},
		{
			"a bad prefix", map[string]string{"config.json": resources(`{"resourceName": "x", "resourcePrefix": "Intel.com", "selectors": {"vendors": ["15b3"]}}`, "k")}, []string{"intel.com/k"},
			[]string{"ConfigMap kube-system/sriovdp-config: sriovdp-config/config.json:1: resourceList[0].resourcePrefix \"Intel.com\": want a domain name"}, metav1.ConditionFalse, "NotAllServed",
			"resources: 1; sriovdp-config/config.json:1: resourceList[0].resourcePrefix \"Intel.com\": want",
		},
		{
			"no selectors", map[string]string{"config.json": resources("k", `{"resourceName": "r"}`)}, []string{"intel.com/k", "intel.com/r"},
			[]string{"pool intel.com/r: it is not served: sriovdp-config/config.json:1: resourceList[1]: selectors are missing"}, metav1.ConditionFalse, "NotAllServed", "resources: 1; intel.com/r is not served: ",
		},
		{
			"one name in a container", map[string]string{"config.json": resources("a-b", "a_b")}, []string{"intel.com/a-b", "intel.com/a_b"},
			[]string{"ConfigMap kube-system/sriovdp-config: sriovdp-config/config.json:1: resourceList[1]: pool intel.com/a_b has the variable PCIDEVICE_INTEL_COM_A_B of pool intel.com/a-b"},
			metav1.ConditionTrue, "Read", "resources: 2; ",
		},
		{
			"an expression in pfNames", map[string]string{"config.json": resources(`{"resourceName": "p", "selectors": {"pfNames": ["^ens1f[01]$"]}}`)}, []string{"intel.com/p"},
			[]string{"ConfigMap kube-system/sriovdp-config: sriovdp-config/config.json:1: resourceList[0].selectors.pfNames \"^ens1f[01]$\" matches no PF"}, metav1.ConditionTrue, "Read", "matches no PF",
		},
		{"deleted", nil, nil, nil, "", "", ""},
	} {
		s.SetDevicePlugin(tt.data)
		s.Merge()
		if diff := cmp.Diff(tt.pools, poolNames(current.Spec())); diff != "" {
			t.Errorf("%s: pools (-want +got):\n%s", tt.name, diff)
		}
		checkProblems(t, tt.name, s.Problems(), tt.problems)
		var got metav1.Condition
		for _, c := range s.Conditions(nil) {
			if c.Type == v1alpha1.ConditionDevicePluginConfig {
				got = c
			}
		}
		if got.Status != tt.status || got.Reason != tt.reason || !strings.Contains(got.Message, tt.message) {
			t.Errorf("%s: condition %+v, want %s %s %q", tt.name, got, tt.status, tt.reason, tt.message)
		}
	}
}

// checkProblems wants the problems to have each a next step, and to begin as "object: reason" with
// the wanted texts.
func checkProblems(t *testing.T, step string, got []api.Problem, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: problems %+v, want %q", step, got, want)
		return
	}
	for i, p := range got {
		if text := p.Object + ": " + p.Reason; !strings.HasPrefix(text, want[i]) || p.Next == "" {
			t.Errorf("%s: problem %q and next step %q, want %q", step, text, p.Next, want[i])
		}
	}
}

// Flags name another ConfigMap and another prefix of resources. host.yaml comes before the
// ConfigMap.
func TestDevicePluginOfAnotherName(t *testing.T) {
	s, current := newSet()
	s.DevicePlugin = DevicePluginSource{ConfigMap: "sriov/device-plugin", Prefix: "example.org"}
	s.SetHost(desired.Spec{Pools: []desired.Pool{{Name: "a", Prefix: "example.org", DeviceType: desired.VFIO}}})
	s.SetDevicePlugin(map[string]string{"config.json": resources("a", "b")})
	s.Merge()
	spec := current.Spec()
	if diff := cmp.Diff([]string{"example.org/a", "example.org/b"}, poolNames(spec)); diff != "" || spec.Pools[0].DeviceType != desired.VFIO {
		t.Errorf("pools %+v (-want +got):\n%s", spec.Pools, diff)
	}
	s.SetDevicePlugin(map[string]string{})
	checkProblems(t, "no key", s.Problems(), []string{"ConfigMap sriov/device-plugin: it has no key config.json"})
}
