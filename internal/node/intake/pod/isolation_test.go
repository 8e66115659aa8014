package pod_test

import (
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/network/netannotation"
)

// I9: a pod uses networks of its own namespace, of the global ones, and those whose
// author admits its namespace, as default network too.
func TestI9NamespacesAreIsolated(t *testing.T) {
	for name, tc := range map[string]struct {
		network, admits string
		refused         bool
	}{
		"its own namespace":                   {"d/v", "", false},
		"a global namespace":                  {"shared/v", "", false},
		"another namespace":                   {"other/v", "", true},
		"another that admits it":              {"other/v", "x, d", false},
		"another that admits all":             {"other/v", "*", false},
		"another that admits others":          {"other/v", "dd,x", true},
		"another with an empty annotation":    {"other/v", ",", true},
		"another that admits by a pattern":    {"other/v", "d*", true},
		"another namespace, a missing object": {"other/missing", "", true},
	} {
		for _, annotation := range []string{netannotation.Networks, netannotation.DefaultNetwork} {
			t.Run(name+", "+annotation, func(t *testing.T) {
				w := newWorld(t)
				w.pods.Isolation = netannotation.Isolation{On: true, Global: []string{"shared"}}
				if !strings.HasSuffix(tc.network, "missing") {
					w.network(tc.network, sriov)
					w.cluster.networks[tc.network].Annotations[netannotation.Namespaces] = tc.admits
				}
				w.pod(map[string]string{annotation: tc.network})
				if tc.refused {
					if msg := w.refused(); !strings.Contains(msg, "network "+tc.network) {
						t.Error(msg)
					}
					return
				}
				w.add()
				w.del()
				w.clean()
			})
		}
	}
}

// A refusal says which annotation of which network admits the pod.
func TestIsolationSaysWhatAdmits(t *testing.T) {
	w := newWorld(t)
	w.pods.Isolation = netannotation.Isolation{On: true, Global: []string{"shared"}}
	w.network("other/v", sriov)
	w.asks("other/v")
	want := "of their own namespace and of shared only: to admit them, set the annotation culvert.dev/namespaces of NetworkAttachmentDefinition other/v to d"
	if msg := w.refused(); !strings.Contains(msg, want) {
		t.Error(msg)
	}
}

// I9: a refusal does not say whether the network of another namespace is there.
func TestI9RefusalHidesMissingNetworks(t *testing.T) {
	w := newWorld(t)
	w.pods.Isolation.On = true
	w.asks("other/v")
	missing := w.refused()
	w.network("other/v", sriov)
	if there := w.refused(); missing != there {
		t.Errorf("of a missing network it says %q, else %q", missing, there)
	}
	w.cluster.silent = true
	w.asks("other/w")
	if unknown := w.refused(); strings.ReplaceAll(missing, "other/v", "other/w") != unknown {
		t.Errorf("while the API server does not answer, it says of an unknown network %q, else %q", unknown, missing)
	}
}

// A default network that a pod's annotation names is planned like any other network: with the
// kubelet's device, and with the settings of the annotation's JSON form.
func TestDefaultNetworkGetsItsDevice(t *testing.T) {
	w := newWorld(t)
	w.network("kube-system/v", strings.Replace(sriov, `"type":"sriov"`, `"type":"sriov","capabilities":{"mac":true}`, 1), "intel.com/fast")
	w.pod(map[string]string{netannotation.DefaultNetwork: `[{"name":"v","mac":"02:00:00:00:00:09"}]`})
	if msg := w.refused(); !strings.Contains(msg, "gave pod d/a 0 of them") {
		t.Error(msg)
	}
	w.given["d/a/intel.com/fast"] = w.vfs()[2:3]
	w.add()
	s := w.status()
	if len(s) != 1 || s[0]["interface"] != "eth0" || s[0]["default"] != true || s[0]["mac"] != "02:00:00:00:00:09" {
		t.Errorf("network-status %v", s)
	}
	for _, r := range w.content().Records {
		if held := r.Held(); held != (r.PCI == w.given["d/a/intel.com/fast"][0]) {
			t.Errorf("VF %s is held: %v", r.PCI, held)
		}
	}
	w.del()
	w.clean()
}
