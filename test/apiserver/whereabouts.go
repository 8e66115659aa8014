package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// InstallWhereabouts creates the types of whereabouts in the cluster, and returns a folder that
// has its plugin and the path of its configuration. The plugin reaches the API server by host,
// https://ADDRESS:PORT, as an administrator.
func (s *Server) InstallWhereabouts(host string) (plugins, config string) {
	s.t.Helper()
	tools := filepath.Join(treeRoot(s.t), "tools", "go")
	in := func(args ...string) string {
		cmd := exec.CommandContext(s.t.Context(), tools, args...)
		cmd.Dir = filepath.Join(treeRoot(s.t), "test", "tools", "whereabouts")
		out, err := cmd.Output()
		if err != nil {
			s.t.Fatalf("tools/go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	in("mod", "download", "github.com/k8snetworkplumbingwg/whereabouts")
	dir := in("list", "-m", "-f", "{{.Dir}}", "github.com/k8snetworkplumbingwg/whereabouts")
	crds, err := filepath.Glob(filepath.Join(dir, "doc", "crds", "whereabouts.cni.cncf.io_*.yaml"))
	if err != nil || len(crds) == 0 {
		s.t.Fatalf("the types of whereabouts: %v, %v", crds, err)
	}
	for _, file := range crds {
		text, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		s.Must(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", string(text))
	}
	Eventually(s.t, "the types of whereabouts", func() error {
		return s.Do(http.MethodGet, "/apis/whereabouts.cni.cncf.io/v1alpha1/ippools", "", nil)
	})
	program, err := os.ReadFile(Program(s.t, "whereabouts", "cmd"))
	if err != nil {
		s.t.Fatal(err)
	}
	account, err := os.ReadFile(s.kubeconfigOf(admin))
	if err != nil {
		s.t.Fatal(err)
	}
	plugins = s.t.TempDir()
	file := filepath.Join(plugins, "kubeconfig")
	config = filepath.Join(plugins, "whereabouts.conf")
	if err := errors.Join(
		os.WriteFile(filepath.Join(plugins, "whereabouts"), program, 0o755),
		os.WriteFile(config, fmt.Appendf(nil, `{"datastore":"kubernetes","kubernetes":{"kubeconfig":%q},"log_level":"error"}`, file), 0o600),
		os.WriteFile(file, []byte(strings.Replace(string(account), s.Config().Host, host, 1)), 0o600),
	); err != nil {
		s.t.Fatal(err)
	}
	return plugins, config
}
