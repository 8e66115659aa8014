package migrate

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// multusWith is a cluster of a Multus with a configuration, and networks of kube-system and infra.
func multusWith(config string) Cluster {
	return Cluster{
		HasNetworks: true,
		Networks:    []Network{{Namespace: "kube-system", Name: "lan"}, {Namespace: "kube-system", Name: "storage"}, {Namespace: "infra", Name: "lan"}},
		Workloads:   []Workload{{Kind: "DaemonSet", Namespace: "kube-system", Name: "kube-multus-ds", Replicas: 1, ConfigMaps: []string{"multus-daemon-config"}}},
		Objects:     []Object{{Kind: KindConfigMap, Namespace: "kube-system", Name: "multus-daemon-config", Data: map[string]string{"daemon-config.json": config}}},
	}
}

// The plan gives Culvert the networks that Multus gives every pod. It names those that it cannot take
// over, with which no pod would start.
func TestPlanKeepsDefaultNetworks(t *testing.T) {
	const system = "- --system-namespaces=kube-system,culvert-system"
	for name, tc := range map[string]struct {
		config   string
		culvertd []string
		want     []string // the new lines of the manifest about these
		lost     []string
	}{
		"none":                {config: `{"defaultNetworks": [], "systemNamespaces": ["kube-system", "admin"]}`},
		"one":                 {config: `{"clusterNetwork": "/host/etc/cni/net.d/10-flannel.conflist", "defaultNetworks": ["lan"]}`, want: []string{"- --default-networks=kube-system/lan"}},
		"several, and others": {config: `{"defaultNetworks": ["storage", "lan"], "systemNamespaces": ["kube-system", "admin"]}`, want: []string{"- --default-networks=kube-system/storage,kube-system/lan", "- --system-namespaces=kube-system,admin,culvert-system"}},
		"another namespace":   {config: `{"defaultNetworks": ["lan"], "multusNamespace": "infra"}`, want: []string{"- --default-networks=infra/lan"}},
		"files": {config: `{"defaultNetworks": ["lan", "missing", "/etc/cni/net.d/a.conf", "Bridge", "a,b", "lan@x"]}`, want: []string{"- --default-networks=kube-system/lan"}, lost: []string{
			`defaultNetworks "missing": no NetworkAttachmentDefinition kube-system/missing, without which no pod would start`,
			`defaultNetworks "/etc/cni/net.d/a.conf": no equivalent: Multus reads it from a file`, `defaultNetworks "Bridge": no equivalent`, `defaultNetworks "a,b": no equivalent`, `defaultNetworks "lan@x": no equivalent`,
		}},
		"a default network by name": {config: `{"clusterNetwork": "flannel", "defaultNetworks": []}`, lost: []string{`clusterNetwork "flannel": no equivalent: the default network of pods is the first configuration in node.cniConf`}},
		"delegates":                 {config: `{"delegates": [{"type": "calico"}, {"type": "macvlan"}], "defaultNetworks": ["lan"]}`, lost: []string{"delegates: no equivalent for those after the first"}},
		"one delegate":              {config: `{"delegates": [{"type": "calico"}], "defaultNetworks": ["lan"]}`},
		"not readable":              {config: `{"defaultNetworks": "lan"}`, lost: []string{"multus-daemon-config/daemon-config.json: it cannot be read"}},
		"not its own":               {config: `#!/bin/sh`},
		"installed":                 {config: `{"defaultNetworks": ["lan"]}`, culvertd: []string{"--default-networks=infra/lan,kube-system/lan"}},
		"installed, fewer":          {config: `{"defaultNetworks": ["lan", "storage"]}`, culvertd: []string{"--default-networks=kube-system/lan"}, want: []string{"- --default-networks=kube-system/lan,kube-system/storage"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := multusWith(tc.config)
			if tc.culvertd != nil {
				c.Installed, c.Workloads = true, append(c.Workloads, Workload{Kind: "DaemonSet", Namespace: "culvert-system", Name: "culvertd", Args: tc.culvertd})
			}
			p := MakePlan(c, Options{})
			_, added := edited(t, p)
			added = slices.DeleteFunc(added, func(line string) bool { return strings.Contains(line, "isolation") })
			var want []string
			if len(tc.want) > 0 {
				want = slices.Concat(tc.want, tc.want, []string{"true && !object.spec.?hostNetwork.orValue(false) &&"}) // of culvertd, of the controller and of its webhook
			}
			if d := cmp.Diff(strings.Join(want, "\n"), strings.Join(added, "\n")); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
			if len(p.Problems) != len(tc.lost) {
				t.Errorf("problems %v", p.Problems)
			}
			for _, lost := range tc.lost {
				if !slices.ContainsFunc(p.Problems, func(n Note) bool { return strings.HasPrefix(n.String(), "DaemonSet kube-system/kube-multus-ds: "+lost) }) {
					t.Errorf("%s is not among %v", lost, p.Problems)
				}
			}
			helm := strings.Contains(whys(p), "--set 'node.defaultNetworks={")
			if becomes := slices.ContainsFunc(p.Becomes, func(n Note) bool { return strings.Contains(n.String(), "becomes node.defaultNetworks ") }); helm != (len(want) > 0) || len(want) > 0 && !becomes {
				t.Errorf("%s\n%v", whys(p), p.Becomes)
			}
		})
	}
	if !strings.Contains(read(t, "../../../"+manifest), system) {
		t.Errorf("the manifest has not %s", system)
	}
}

// The plan writes the folders into Culvert's manifest, and leaves those of an installed culvertd. A
// path that a shell would read is not taken.
func TestPlanWritesFolders(t *testing.T) {
	const lines = "- {name: cni-bin, hostPath: {path: /b, type: DirectoryOrCreate}}\n- {name: cni-conf, hostPath: {path: /c/net.d, type: DirectoryOrCreate}}"
	for name, tc := range map[string]struct {
		args             []string
		config           string // Multus', as JSON
		mounts, culvertd map[string]string
		want             string
	}{
		"by configuration":  {config: `{"cniConfigDir": "/y/net.d", "binDir": "/b/"}`, mounts: map[string]string{"/y": "/c", "/host/etc/cni/net.d": "/other"}, want: lines},
		"a mount counts":    {config: `{"binDir": "/other"}`, mounts: map[string]string{"/host/opt/cni/bin": "/b"}, want: strings.Split(lines, "\n")[0]},
		"unknown":           {},
		"the usual ones":    {mounts: map[string]string{"/host/opt/cni/bin": "/opt/cni/bin/", "/host/etc/cni/net.d": "/etc/cni/net.d"}},
		"both":              {mounts: map[string]string{"/host/opt/cni/bin": "/b", "/host/etc/cni/net.d": "/c/net.d"}, want: lines},
		"by arguments":      {args: []string{"--cni-bin-dir=/x", "-cni-conf-dir", "/y/z"}, mounts: map[string]string{"/x": "/b", "/y/": "/c", "/y/z": "/c/net.d", "/host/opt/cni/bin": "/other"}, want: lines},
		"below a mount":     {args: []string{"--cni-bin-dir=/hostroot/b"}, mounts: map[string]string{"/hostroot": "/", "/host/etc": "/e", "/host/etc/cni": "/c"}, want: lines},
		"by their names":    {mounts: map[string]string{"/one": "/b/cni/bin", "/two": "/c/cni/net.d", "/three": "/d"}, want: strings.ReplaceAll(strings.ReplaceAll(lines, "/b,", "/b/cni/bin,"), "/c/net.d", "/c/cni/net.d")},
		"two of one name":   {mounts: map[string]string{"/one": "/b/cni/bin", "/two": "/c/cni/bin"}},
		"only one":          {mounts: map[string]string{"/host/opt/cni/bin": "/b"}, want: strings.Split(lines, "\n")[0]},
		"no name of a path": {mounts: map[string]string{"/host/opt/cni/bin": "/b|e reboot #", "/host/etc/cni/net.d": "/c'"}},
		"installed":         {mounts: map[string]string{"/host/opt/cni/bin": "/b", "/host/etc/cni/net.d": "/c/net.d"}, culvertd: map[string]string{"/opt/cni/bin": "/b", "/etc/cni/net.d": "/c/net.d"}},
		"installed, others": {mounts: map[string]string{"/host/opt/cni/bin": "/b", "/host/etc/cni/net.d": "/c/net.d"}, culvertd: map[string]string{"/opt/cni/bin": "/opt/cni/bin", "/etc/cni/net.d": "/c/net.d"}, want: lines},
	} {
		t.Run(name, func(t *testing.T) {
			c := multusWith(tc.config)
			c.Workloads[0].Args, c.Workloads[0].Mounts = tc.args, tc.mounts
			if tc.culvertd != nil {
				c.Installed, c.Workloads = true, append(c.Workloads, Workload{Kind: "DaemonSet", Namespace: "culvert-system", Name: "culvertd", Args: []string{"--namespace-isolation"}, Mounts: tc.culvertd})
			}
			p := MakePlan(c, Options{})
			_, added := edited(t, p)
			added = slices.DeleteFunc(added, func(line string) bool { return strings.Contains(line, "isolation") })
			if d := cmp.Diff(tc.want, strings.Join(added, "\n")); d != "" || len(p.Problems) > 0 {
				t.Errorf("-want +got\n%s\n%v", d, p.Problems)
			}
			if all := whys(p); strings.Contains(all, "--set node.cniBin=") != (tc.want != "") {
				t.Error(all)
			}
		})
	}
}

// EveryPod reads the networks of every pod as culvertd and Multus do.
func TestEveryPod(t *testing.T) {
	multus := func(config string) map[string]string { return map[string]string{"daemon-config.json": config} }
	for name, tc := range map[string]struct {
		data map[string]string
		args []string
		want map[string][]string // of the pod's namespace
	}{
		"nothing":            {},
		"culvertd":           {args: []string{"--default-networks=lan,infra/b", "--system-namespaces=quiet"}, want: map[string][]string{"a": {"kube-system/lan", "infra/b"}, "quiet": nil}},
		"culvertd's default": {args: []string{"--default-networks=lan"}, want: map[string][]string{"a": {"kube-system/lan"}, "kube-system": nil, "quiet": {"kube-system/lan"}}},
		"Multus":             {data: multus(`{"defaultNetworks": ["lan", "/etc/cni/net.d/a.conf"], "multusNamespace": "infra"}`), want: map[string][]string{"a": {"infra/lan"}, "kube-system": nil}},
		"Multus' namespaces": {data: multus(`{"defaultNetworks": ["lan"], "systemNamespaces": ["quiet"]}`), want: map[string][]string{"quiet": nil, "a": {"kube-system/lan"}}},
		"delegates":          {data: multus(`{"delegates": [{"type": "calico"}], "defaultNetworks": ["lan"]}`), want: map[string][]string{"a": nil}},
		"no names":           {data: multus(`{"defaultNetworks": ["Bridge"]}`), want: map[string][]string{"a": nil}},
	} {
		for namespace, want := range tc.want {
			var got []string
			all, err := EveryPod(tc.data, tc.args).Parse("", namespace)
			if err != nil {
				t.Errorf("%s, a pod in %s: %v", name, namespace, err)
			}
			for _, e := range all {
				got = append(got, e.Namespace+"/"+e.Name)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s, a pod in %s: -want +got\n%s", name, namespace, d)
			}
		}
	}
}
