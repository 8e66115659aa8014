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

// templateChart renders the chart as helm does before it installs or upgrades.
func templateChart(t *testing.T, args ...string) string {
	t.Helper()
	args = append([]string{"template", "culvert", "../../../dist/kubernetes/chart", "--namespace", "culvert-system", "--kube-version", "1.30.0"}, args...)
	cmd := exec.CommandContext(t.Context(), apiserver.Program(t, "helm", "helm"), args...)
	cmd.Env = append(os.Environ(), "KUBECACHEDIR="+t.TempDir()) // else helm uses what it cached about another server at that port
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helm %v: %v: %s", args, err, said.String())
	}
	return string(out)
}

// isolationFlag reports whether culvertd would get --namespace-isolation.
func isolationFlag(t *testing.T, args ...string) bool {
	t.Helper()
	text := templateChart(t, args...)
	if !strings.Contains(text, "--global-namespaces=default,kube-system,culvert-system") {
		t.Error("culvertd is not given the global namespaces")
	}
	return strings.Contains(text, "- --namespace-isolation\n")
}

// withServer returns the arguments with which helm asks the API server as its
// administrator.
func withServer(t *testing.T, s *apiserver.Server) []string {
	t.Helper()
	text, err := os.ReadFile(s.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(strings.ReplaceAll(string(text), `"token": "viewer"`, `"token": "admin"`)), 0o600); err != nil {
		t.Fatal(err)
	}
	apiserver.Eventually(t, "namespace kube-system", func() error { return s.Do(http.MethodGet, "/api/v1/namespaces/kube-system", "", nil) })
	return []string{"--dry-run=server", "--kubeconfig", kubeconfig}
}

// Namespace isolation is on in a new install. An upgrade keeps the setting of the existing
// DaemonSet. A value that the administrator gives overrides both.
func TestIsolationOfANewInstall(t *testing.T) {
	s := apiserver.New(t)
	server := withServer(t, s)
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
