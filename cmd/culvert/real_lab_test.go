//go:build lab

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/node/kube"
	"github.com/culvert-net/culvert/test/apiserver"
)

// The real kubectl finds the plugin and completes its words. With a real API
// server, the plugin names the reason why it can show nothing (no CRDs, no
// rights). With only the rights of culvert-view it shows the nodes as package
// kube wrote them, and the page follows their changes.
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
	followChanges(t, s)
}

// followChanges opens the page, and compares it with what changes in the API server.
func followChanges(t *testing.T, s *apiserver.Server) {
	t.Helper()
	var out lines
	_, stop := startUI(t, s.Kubeconfig(), &out)
	defer stop()
	u := out.nextURL(t, 1)
	browser, _ := openPage(t, u)
	base, _, _ := strings.Cut(u, "/?")
	stream := bufio.NewReader(get(t, browser, base+"/stream?node=worker01").Body)
	if _, data := readEvent(t, stream, "overview"); !bytes.Contains(data, []byte(`"name":"worker01"`)) {
		t.Errorf("%s", data)
	}
	readEvent(t, stream, "node")
	const path = "/apis/culvert.dev/v1alpha1/nodestates/worker01"
	for _, version := range []string{"v8.0.0", "v9.0.0"} { // by the watch
		var state v1alpha1.NodeState
		if err := s.Do(http.MethodGet, path, "", &state); err != nil {
			t.Fatal(err)
		}
		state.Status.Version = version
		body, err := json.Marshal(state)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		s.Must(http.MethodPut, path, string(body))
		if _, data := readEvent(t, stream, "rows"); !bytes.Contains(data, []byte(version)) {
			t.Errorf("%s", data)
		}
		took := time.Since(at)
		readEvent(t, stream, "node")
		if t.Logf("the page has a change after %d ms", took.Milliseconds()); took > 10*time.Second {
			t.Error("that is no watch")
		}
	}
	for path, want := range map[string]string{
		"/data/events?node=worker01": "--clusterrole=view ", "/data/history?node=worker01&vf=enp1s0f0%230": "culvert vf history enp1s0f0#0", "/data/node?name=none": "no NodeState of that name",
	} {
		if text, err := io.ReadAll(get(t, browser, base+path).Body); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v %s", path, err, text)
		}
	}
	writeState(t, s, "worker02")
	if _, data := readEvent(t, stream, "overview"); !bytes.Contains(data, []byte(`"name":"worker02"`)) {
		t.Errorf("%s", data)
	}
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
