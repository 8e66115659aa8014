package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/culvert-net/culvert/internal/admin/migrate"
)

// objectServer runs an API server that has the objects of a file, in the form of a kubectl apply, and
// returns a kubeconfig for it. It knows no other kinds.
func objectServer(t *testing.T, file string) (kubeconfig string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string][]string{"/apis/apps/v1/daemonsets": nil, "/apis/apps/v1/deployments": nil, "/api/v1/pods": nil, networksPath: nil}
	paths := map[string]string{"DaemonSet": "/apis/apps/v1/daemonsets", "Deployment": "/apis/apps/v1/deployments", migrate.KindDefinition: networksPath}
	for _, doc := range strings.Split(string(text), "\n---\n") {
		raw, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		var o struct {
			Kind     string
			Metadata struct{ Namespace, Name string }
		}
		if err := json.Unmarshal(raw, &o); err != nil {
			t.Fatal(err)
		}
		path := paths[o.Kind]
		if path == "" {
			path = "/api/v1/namespaces/" + o.Metadata.Namespace + "/configmaps/" + o.Metadata.Name
		}
		answers[path] = append(answers[path], string(raw))
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		all, known := answers[r.URL.Path]
		switch {
		case !known:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		case strings.Contains(r.URL.Path, "/configmaps/"):
			fmt.Fprint(w, all[0])
		default:
			fmt.Fprintf(w, `{"items": [%s]}`, strings.Join(all, ","))
		}
	}))
	t.Cleanup(srv.Close)
	return writeKubeconfig(t, srv.URL)
}

const networksPath = "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions"

// planOf runs culvert migrate plan for a cluster with the objects of a file.
func planOf(t *testing.T, file string) (plan migrate.Plan, problems string) {
	t.Helper()
	out, err := run(t.Context(), t, "", "migrate", "plan", "-o", "json", "--kubeconfig", objectServer(t, file))
	if jsonErr := json.Unmarshal([]byte(out), &plan); jsonErr != nil {
		t.Fatalf("%v: %v in %s", err, jsonErr, out)
	}
	var all []string
	for _, n := range plan.Problems {
		all = append(all, n.String())
	}
	return plan, strings.Join(all, "\n")
}

// The plan finds the folders of each distribution in its Multus, thick or thin, and writes them into
// Culvert's manifest and values. Where they are the usual ones, it writes nothing.
func TestPlanFindsFoldersOfDistributions(t *testing.T) {
	const k3s, openshift = "/var/lib/rancher/k3s/agent/etc/cni/net.d", "/etc/kubernetes/cni/net.d"
	for name, want := range map[string]struct{ bin, conf string }{
		"k3s":            {"/var/lib/rancher/k3s/data/cni", k3s},
		"k3s-thick":      {"/var/lib/rancher/k3s/data/current/bin", k3s},
		"rke2":           {},
		"microk8s":       {"/var/snap/microk8s/current/opt/cni/bin", "/var/snap/microk8s/current/args/cni-network"},
		"talos":          {},
		"openshift":      {"/var/lib/cni/bin", openshift},
		"openshift-thin": {"/var/lib/cni/bin", openshift},
	} {
		t.Run(name, func(t *testing.T) {
			plan, problems := planOf(t, filepath.Join("testdata/stacks", name+".yaml"))
			if problems != "" {
				t.Errorf("problems: %s", problems)
			}
			var folders []string
			last := plan.Steps[len(plan.Steps)-1]
			for _, s := range plan.Steps {
				if _, values, is := strings.Cut(s.Why, "with Helm, "); is && strings.Contains(values, "node.cniBin") {
					folders = append(folders, values, s.Command)
				}
			}
			if want.bin == "" {
				if len(folders) > 0 || !strings.Contains(last.Why, "from /etc/cni/net.d of each node") {
					t.Errorf("%q, then %s", folders, last.Why)
				}
				return
			}
			helm := "--set node.cniBin=" + want.bin + " --set node.cniConf=" + want.conf
			if len(folders) != 2 || folders[0] != helm || !strings.Contains(folders[1], "path: "+want.bin+"|") || !strings.Contains(folders[1], "path: "+want.conf+"|") {
				t.Errorf("%q, want %s", folders, helm)
			}
			if !strings.Contains(last.Why, "from "+want.conf+" of each node") {
				t.Error(last.Why)
			}
		})
	}
}

// The plan reads the injector's ConfigMaps, which no pod mounts, and names what is not served.
func TestPlanNamesInjections(t *testing.T) {
	plan, problems := planOf(t, "testdata/stacks/injector.yaml")
	for _, want := range []string{
		`ConfigMap nri/nri-control-switches: data.config.json.user-defined-injections.feature.pod_sriov: not served: pods with the label "feature.pod_sriov=true"`,
		`ConfigMap kube-system/nri-user-defined-injections: data.nri-inject: not served: pods with the label "nri-inject=true"`,
	} {
		if !strings.Contains(problems, want) {
			t.Errorf("%q is not in %s", want, problems)
		}
	}
	if len(plan.Problems) != 2 || !strings.Contains(fmt.Sprint(plan.Steps), "--network-resource-name-keys=k8s.v1.cni.cncf.io/resourceName,example.org/resource") {
		t.Errorf("%s\n%v", problems, plan.Steps)
	}
}

// The plan gives Culvert the network that Multus gives every pod, and names one that is in a file.
func TestPlanFindsDefaultNetworks(t *testing.T) {
	plan, problems := planOf(t, "testdata/stacks/default-networks.yaml")
	if len(plan.Problems) != 1 || !strings.Contains(problems, `defaultNetworks "bridge0": no NetworkAttachmentDefinition kube-system/bridge0`) {
		t.Errorf("problems: %s", problems)
	}
	if all := fmt.Sprint(plan.Steps); !strings.Contains(all, "--set 'node.defaultNetworks={kube-system/storage}' --set 'node.systemNamespaces={kube-system,monitoring}'") {
		t.Error(all)
	}
}
