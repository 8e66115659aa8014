//go:build lab

package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/node/kube"
	"github.com/culvert-net/culvert/test/apiserver"
)

// The real kubectl finds the plugin and completes its words. With a real API
// server, the plugin names the reason why it can show nothing (no CRDs, no
// rights). With only the rights of culvert-view it shows the nodes as package
// kube wrote them.
func TestRealKubectl(t *testing.T) {
	s := apiserver.New(t)
	bin := t.TempDir()
	build := exec.Command("../../tools/go", "build", "-o", filepath.Join(bin, pluginName), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Symlink(pluginName, filepath.Join(bin, completionName)); err != nil {
		t.Fatal(err)
	}
	program, kubeconfig := apiserver.Program(t, "kubernetes", "kubectl"), s.Kubeconfig()
	kubectl := func(want string, args ...string) {
		t.Helper()
		apiserver.Eventually(t, "kubectl "+strings.Join(args, " "), func() error { // rights and CRDs take a moment
			cmd := exec.Command(program, args...)
			cmd.Env = append(os.Environ(), "PATH="+bin, "KUBECONFIG="+kubeconfig, "KUBECACHEDIR="+bin)
			if out, err := cmd.CombinedOutput(); !strings.Contains(string(out), want) {
				return fmt.Errorf("%w: %q is not in:\n%s", err, want, out)
			}
			return nil
		})
	}
	kubectl("administrator gives the right: kubectl create clusterrolebinding NAME --clusterrole=culvert-view", "culvert", "status")
	s.Must(http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterroles", manifestObject(t, "ClusterRole", "culvert-view"))
	s.Must(http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata": {"name": "viewers"},
		"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "culvert-view"}, "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "viewer"}]}`)
	kubectl("Culvert is not installed there: kubectl apply --server-side", "culvert", "status")
	s.CRDs()
	kubectl("No node has reported", "culvert", "status")
	writeState(t, s, "worker01")
	kubectl("worker01  ready !", "culvert", "status")
	kubectl("pod default/a, as net1", "culvert", "vf", "show", "default/a", "--node", "worker01")
	kubectl("\nworker01\n", "__complete", "culvert", "status", "--node", "")
	kubectl("0000:01:10.6", "__complete", "culvert", "vf", "show", "")
}

// manifestObject returns an object of the manifests that people apply.
func manifestObject(t *testing.T, kind, name string) string {
	t.Helper()
	var all []string
	for _, file := range []string{"network-attachment-definitions.yaml", "culvert.yaml"} {
		text, err := os.ReadFile("../../dist/kubernetes/" + file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.Split(string(text), "\n---\n")...)
	}
	for _, o := range all {
		if strings.Contains(o, "kind: "+kind+"\n") && strings.Contains(o, "name: "+name+"\n") {
			return o
		}
	}
	t.Fatalf("the manifest has no %s %s", kind, name)
	return ""
}

// writeState writes a NodeState as a node does.
func writeState(t *testing.T, s *apiserver.Server, node string) {
	t.Helper()
	raw, err := os.ReadFile("../../internal/node/status/testdata/nodestate.json")
	var state v1alpha1.NodeStateStatus
	if err == nil {
		err = json.Unmarshal(raw, &state)
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := kube.New(s.Config(), node, slog.New(slog.DiscardHandler))
	if err == nil {
		err = c.WriteState(t.Context(), state)
	}
	if err != nil {
		t.Fatal(err)
	}
}
