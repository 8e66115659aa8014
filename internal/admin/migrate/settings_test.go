package migrate

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// edited runs the commands of a plan that edit Culvert's manifest, and returns its lines that
// changed: first those that are gone, then the new ones.
func edited(t *testing.T, p Plan) (gone, added []string) {
	t.Helper()
	before, err := os.ReadFile(filepath.Join("../../..", manifest))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), manifest)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, before, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second time changes nothing
		for _, s := range p.Steps {
			if !strings.HasPrefix(s.Command, "sed ") {
				continue
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-c", s.Command)
			cmd.Dir = filepath.Join(filepath.Dir(file), "../..")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", s.Command, err, out)
			}
		}
	}
	after, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read(manifest, after); err != nil {
		t.Error(err)
	}
	missing := func(from, in []byte) (out []string) {
		have := strings.Split(string(in), "\n")
		for _, line := range strings.Split(string(from), "\n") {
			if !slices.Contains(have, line) {
				out = append(out, strings.TrimSpace(line))
			}
		}
		return out
	}
	return missing(before, after), missing(after, before)
}

// pluginPools is a ConfigMap of a device plugin.
func pluginPools(name string) Object {
	return Object{Kind: KindConfigMap, Namespace: "dp", Name: name, Data: map[string]string{"config.json": `{"resourceList": [{"resourceName": "a", "selectors": {"vendors": ["8086"]}}]}`}}
}

// The device plugin's ConfigMap and prefix are in Culvert's manifest before it is applied, with
// the right to read that ConfigMap.
func TestPlanKeepsSettings(t *testing.T) {
	c := Cluster{HasNetworks: true, Objects: []Object{pluginPools("pools"), pluginPools("more")}}
	c.Workloads = []Workload{{
		Kind: "DaemonSet", Namespace: "dp", Name: "sriov-device-plugin", Replicas: 1,
		Args: []string{"sriovdp", "--log-level=10", "-resource-prefix", "example.org"}, ConfigMaps: []string{"certificates", "pools"},
	}}
	p := MakePlan(c, Options{})
	gone, added := edited(t, p)
	if len(gone) != 5 {
		t.Errorf("gone: %q", gone)
	}
	want := []string{
		"metadata: {name: culvertd-device-plugin, namespace: dp}", "resourceNames: [pools]", "metadata: {name: culvertd-device-plugin, namespace: dp}",
		"- --device-plugin-config=dp/pools", "- --device-plugin-prefix=example.org",
	}
	if d := cmp.Diff(want, added); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	all := commands(p)
	if strings.Index(all, "sed -i") > strings.Index(all, "kubectl apply --server-side") || strings.Contains(all, "isolation") {
		t.Error(all)
	}

	t.Run("two ConfigMaps", func(t *testing.T) {
		c := c
		c.Workloads = append(slices.Clone(c.Workloads), Workload{Kind: "DaemonSet", Namespace: "dp", Name: "sriov-device-plugin-2", Replicas: 1, ConfigMaps: []string{"more"}})
		is := func(n Note) bool {
			return strings.HasPrefix(n.String(), "ConfigMap dp/more: culvertd reads one ConfigMap")
		}
		if p := MakePlan(c, Options{}); !slices.ContainsFunc(p.Becomes, is) {
			t.Error(p.Becomes)
		}
	})
	t.Run("the manifest's own", func(t *testing.T) {
		c := Cluster{HasNetworks: true, Objects: []Object{{Kind: KindConfigMap, Namespace: "kube-system", Name: "sriovdp-config", Data: pluginPools("").Data}}}
		c.Workloads = []Workload{{Kind: "DaemonSet", Namespace: "kube-system", Name: "kube-sriov-device-plugin", Replicas: 1, ConfigMaps: []string{"sriovdp-config"}, Args: []string{"--resource-prefix=intel.com"}}}
		if all := commands(MakePlan(c, Options{})); strings.Contains(all, "sed -i") {
			t.Error(all)
		}
	})
	t.Run("the operator's", func(t *testing.T) {
		c := stack()
		c.Workloads[0].Args, c.Workloads[0].ConfigMaps = []string{"--resource-prefix=example.org"}, []string{operatorConfigMap}
		p := MakePlan(c, Options{})
		if all := commands(p); strings.Contains(all, "device-plugin-") || !strings.Contains(all, "culvert migrate convert operator.yaml --resource-prefix example.org > culvert-objects.yaml\n") {
			t.Error(all)
		}
		c.Workloads[0].Args = []string{"--resource-prefix=openshift.io"}
		if all := commands(MakePlan(c, Options{})); !strings.Contains(all, "culvert migrate convert operator.yaml > ") {
			t.Error(all)
		}
	})
}

// Culvert isolates namespaces as Multus did, before Multus is deleted: with the same global
// namespaces, or not at all. An administrator's own choice stays.
func TestPlanIsolatesAsMultus(t *testing.T) {
	multus := Workload{Kind: "DaemonSet", Namespace: "kube-system", Name: "kube-multus-ds", Replicas: 1, ConfigMaps: []string{"multus-daemon-config"}}
	culvertd := Workload{Kind: "DaemonSet", Namespace: "culvert-system", Name: "culvertd", Replicas: 1}
	const off = "- --namespace-isolation=false"
	for name, tc := range map[string]struct {
		config           string   // the file of Multus' ConfigMap
		script, culvertd []string // arguments
		want             string   // the new line of the manifest; empty: no step
	}{
		"nothing":              {config: `{"chrootDir": "/hostroot"}`, want: off},
		"off":                  {config: `{"namespaceIsolation": false}`, script: []string{"--namespace-isolation=false", "--global-namespaces=a"}, want: off},
		"the thick plugin":     {config: `{"namespaceIsolation": true, "globalNamespaces": "team-a, default"}`, want: "- --global-namespaces=default,team-a"},
		"the thin plugin":      {script: []string{"--multus-conf-file=auto", "--namespace-isolation", "--global-namespaces=team-a,default"}, want: "- --global-namespaces=default,team-a"},
		"a script":             {script: []string{"sh", "-c", `/entrypoint.sh --namespace-isolation=true --global-namespaces="b"`}, want: "- --global-namespaces=b"},
		"no global ones":       {config: `{"namespaceIsolation": true}`, want: "- --global-namespaces=default"},
		"installed, off":       {config: `{"namespaceIsolation": true}`, culvertd: []string{"--namespace-isolation=false"}, want: "- --global-namespaces=default"},
		"installed, earlier":   {config: `{"namespaceIsolation": true}`, culvertd: []string{"--kubernetes"}, want: "- --global-namespaces=default"},
		"installed, on":        {config: `{"namespaceIsolation": true}`, culvertd: []string{"--namespace-isolation", "--global-namespaces=default,kube-system"}},
		"installed, refusing":  {config: `{"namespaceIsolation": true, "globalNamespaces": "default,team-a"}`, culvertd: []string{"--namespace-isolation", "--global-namespaces=default"}, want: "- --global-namespaces=default,team-a"},
		"not isolated, open":   {config: `{}`, culvertd: []string{"--namespace-isolation=false"}},
		"not isolated, closed": {config: `{}`, culvertd: []string{"--namespace-isolation=true"}},
		"not isolated, old":    {config: `{}`, culvertd: []string{"--kubernetes"}, want: off},
	} {
		t.Run(name, func(t *testing.T) {
			m := multus
			m.Args = tc.script
			c := Cluster{HasNetworks: true, Workloads: []Workload{m}, Objects: []Object{{Kind: KindConfigMap, Namespace: "kube-system", Name: "multus-daemon-config", Data: map[string]string{"daemon-config.json": tc.config}}}}
			if tc.culvertd != nil {
				d := culvertd
				d.Args = tc.culvertd
				c.Installed, c.Workloads = true, append(c.Workloads, d)
			}
			p := MakePlan(c, Options{})
			_, added := edited(t, p)
			if tc.want == "" {
				if len(added) > 0 || strings.Contains(commands(p), "kubectl apply") {
					t.Errorf("added: %q\n%s", added, commands(p))
				}
				return
			}
			if d := cmp.Diff([]string{tc.want, tc.want}, added); d != "" { // of culvertd and of the controller
				t.Errorf("-want +got\n%s", d)
			}
			rest := commands(p)
			for _, w := range []string{"sed -i", "kubectl apply --server-side", "rollout status daemonset/culvertd", "culvert migrate check", "delete daemonset kube-multus-ds"} {
				_, after, ok := strings.Cut(rest, w)
				if !ok {
					t.Fatalf("%s is missing or in the wrong place:\n%s", w, commands(p))
				}
				rest = after
			}
		})
	}
}

// The plan has the IPAM plugins that networks name, so that they work on. A known plugin that gives no
// addresses is not added, and neither is a text that a shell would read.
func TestPlanAddsIPAMTypes(t *testing.T) {
	networks := []Network{
		{Namespace: "d", Name: "a", IPAM: []string{"nv-ipam", "dhcp"}}, {Namespace: "d", Name: "b", IPAM: []string{"ptp"}},
		{Namespace: "d", Name: "c", IPAM: []string{"calico-ipam", "nv-ipam"}}, {Namespace: "d", Name: "e", IPAM: []string{"x|e reboot #"}},
	}
	for name, tc := range map[string]struct {
		networks []Network
		culvertd []string // arguments of an installed one
		want     string   // the new --ipam-types; empty: no step
	}{
		"none":                {networks: []Network{{Namespace: "d", Name: "a", IPAM: []string{"whereabouts"}}}},
		"some":                {networks: networks, want: "calico-ipam,nv-ipam"},
		"installed, all":      {networks: networks, culvertd: []string{"--ipam-types=nv-ipam,calico-ipam"}},
		"installed, more":     {networks: networks, culvertd: []string{"--ipam-types=nv-ipam,zeta"}, want: "calico-ipam,nv-ipam,zeta"},
		"installed, an older": {networks: networks, culvertd: []string{"--kubernetes"}, want: "calico-ipam,nv-ipam"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Cluster{HasNetworks: true, Networks: tc.networks}
			if tc.culvertd != nil {
				c.Installed, c.Workloads = true, []Workload{{Kind: "DaemonSet", Namespace: "culvert-system", Name: "culvertd", Args: tc.culvertd}}
			}
			p := MakePlan(c, Options{})
			gone, added := edited(t, p)
			var want []string
			if tc.want != "" {
				want = []string{"- --ipam-types=" + tc.want}
			}
			if d := cmp.Diff(want, added); d != "" || len(gone) != len(want) {
				t.Errorf("-want +got\n%s\ngone %q", d, gone)
			}
			if all := commands(p); strings.Contains(all, "kubectl apply --server-side") != (tc.want != "" || tc.culvertd == nil) {
				t.Error(all)
			}
		})
	}
}

// The plan turns isolation on in a manifest in which it was off, and says why it turns it off and how
// to close the cluster later. A cluster without Multus gets the manifest as it is, which isolates.
func TestPlanSaysWhyItIsolates(t *testing.T) {
	for _, s := range []settings{{hasMultus: true}, {hasMultus: true, isolated: true, global: []string{"default"}}} {
		steps := s.isolationSteps(nil)
		if len(steps) != 1 {
			t.Fatalf("%+v: %v", s, steps)
		}
		file := filepath.Join(t.TempDir(), manifest)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, fmt.Appendf(nil, "- --namespace-isolation=%t\n", !s.isolated), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", steps[0].Command)
		cmd.Dir = filepath.Join(filepath.Dir(file), "../..")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		after, err := os.ReadFile(file)
		if want := fmt.Sprintf("- --namespace-isolation=%t\n", s.isolated); err != nil || string(after) != want {
			t.Errorf("%q, %v; want %q", after, err, want)
		}
		if want := fmt.Sprintf("with Helm, --set node.namespaceIsolation=%t", s.isolated); !strings.Contains(steps[0].Why, want) {
			t.Errorf("%q is not in %q", want, steps[0].Why)
		}
		if !s.isolated && !strings.Contains(steps[0].Why, "to close it later, follow what culvert doctor --kubeconfig FILE says, then set it to true") {
			t.Error(steps[0].Why)
		}
	}
	if all := commands(MakePlan(Cluster{HasNetworks: true}, Options{})); strings.Contains(all, "isolation") {
		t.Error(all)
	}
}
