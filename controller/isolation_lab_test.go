//go:build lab

package controller

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/test/apiserver"
)

// isolationFlag renders the chart as helm does before it installs or upgrades, and
// reports whether culvertd would get --namespace-isolation.
func isolationFlag(t *testing.T, args ...string) bool {
	t.Helper()
	args = append([]string{"template", "culvert", "../dist/kubernetes/chart", "--namespace", "culvert-system", "--kube-version", "1.30.0"}, args...)
	cmd := exec.CommandContext(t.Context(), apiserver.Program(t, "helm", "helm"), args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helm %v: %v: %s", args, err, said.String())
	}
	if text := string(out); !strings.Contains(text, "--global-namespaces=default,kube-system,culvert-system") {
		t.Error("culvertd is not given the global namespaces")
	}
	return strings.Contains(string(out), "- --namespace-isolation\n")
}

// Namespace isolation is on in a new install. An upgrade keeps what the DaemonSet has,
// and the administrator's value counts in both.
func TestIsolationOfANewInstall(t *testing.T) {
	s := apiserver.New(t)
	text, err := os.ReadFile(s.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(strings.ReplaceAll(string(text), `"token": "viewer"`, `"token": "admin"`)), 0o600); err != nil {
		t.Fatal(err)
	}
	apiserver.Eventually(t, "namespace kube-system", func() error { return s.Do(http.MethodGet, "/api/v1/namespaces/kube-system", "", nil) })
	server := []string{"--dry-run=server", "--kubeconfig", kubeconfig}
	check := func(what string, want bool, args ...string) {
		t.Helper()
		if got := isolationFlag(t, args...); got != want {
			t.Errorf("%s: namespace isolation is %v, want %v", what, got, want)
		}
	}
	const daemonSets = "/apis/apps/v1/namespaces/culvert-system/daemonsets"
	daemonSet := func(args string) string {
		return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"culvertd"},"spec":{"selector":{"matchLabels":{"a":"b"}},
			"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"culvertd","image":"x","args":[%s]}]}}}}`, args)
	}
	check("rendered without a cluster", false)
	check("new install", true, server...)
	check("new install, turned off", false, append(server, "--set", "node.namespaceIsolation=false")...)
	s.Must(http.MethodPost, "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"culvert-system"}}`)
	check("new install into a namespace that is there", true, server...)
	s.Must(http.MethodPost, daemonSets, daemonSet(`"--kubernetes"`))
	check("upgrade of a version without isolation", false, server...)
	check("upgrade, turned on", true, append(server, "--set", "node.namespaceIsolation=true")...)
	s.Must(http.MethodPut, daemonSets+"/culvertd", daemonSet(`"--kubernetes","--namespace-isolation"`))
	check("upgrade of a version with isolation", true, server...)
}
