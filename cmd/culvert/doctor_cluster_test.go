package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeKubeconfig writes a kubeconfig for an API server.
func writeKubeconfig(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "prod", "contexts": [{"name": "prod", "context": {"cluster": "prod", "user": "u"}}],
		"clusters": [{"name": "prod", "cluster": {"server": %q}}], "users": [{"name": "u", "user": {}}]}`, server)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The doctor asks a cluster that the command line or the environment names, and no other.
func TestDoctorAsksCluster(t *testing.T) {
	calls := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		item := `{"metadata": {"namespace": "team-a", "name": "db", "annotations": {"k8s.v1.cni.cncf.io/networks": "infra/storage"}}}`
		if strings.HasSuffix(r.URL.Path, "network-attachment-definitions") {
			item = `{"metadata": {"namespace": "infra", "name": "storage", "annotations": {"culvert.dev/namespaces": "team-b"}}}`
		}
		fmt.Fprintf(w, `{"items": [%s]}`, item)
	}))
	t.Cleanup(srv.Close)
	socket, file := new(culvertd).serve(t), writeKubeconfig(t, srv.URL)
	guest := filepath.Join(t.TempDir(), "db1.xml")
	if err := os.WriteFile(guest, []byte(`<domain><name>db1</name><uuid>6695eb01-f6a4-8304-79aa-97f2502e193f</uuid><vcpu>1</vcpu><memory>1048576</memory></domain>`), 0o600); err != nil {
		t.Fatal(err)
	}
	const found = "network infra/storage: namespace isolation would refuse it to 1 pod: team-a/db"
	for name, tc := range map[string]struct {
		env, args, want string
		calls           int
	}{
		"a named file":             {"", "doctor --kubeconfig " + file, found, 2},
		"the environment's file":   {file, "doctor", found, 2},
		"a context of it":          {file, "doctor --context prod", found, 2},
		"none":                     {"", "doctor", "", 0},
		"a missing one":            {file + ".none", "doctor", "", 0},
		"a missing one is named":   {"", "doctor --kubeconfig " + file + ".none", "kubeconfig " + file + ".none: file does not exist: name a file", 0},
		"a missing context of it":  {file, "doctor --context lab", `--context "lab": context "lab" does not exist: kubeconfig ` + file + " has the contexts prod", 0},
		"a guest is examined":      {file, "doctor --guest " + guest, "", 0},
		"an API server that fails": {writeKubeconfig(t, "http://127.0.0.1:1"), "doctor", "cluster prod: which pods namespace isolation would refuse", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(clientConfig, tc.env)
			t.Setenv(inPod, "")
			calls = 0
			out, err := run(t.Context(), t, socket, strings.Fields(tc.args)...)
			if out += fmt.Sprint(err); !strings.Contains(out, tc.want) || tc.want == "" && strings.Contains(out, "infra/storage") {
				t.Errorf("want %q in\n%s", tc.want, out)
			}
			if calls != tc.calls {
				t.Errorf("the API server is asked %d times, want %d", calls, tc.calls)
			}
		})
	}
}
