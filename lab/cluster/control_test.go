package cluster

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An API server is ready when it answers 200; until then the error has the text of its
// answer.
func TestAsk(t *testing.T) {
	ready := false
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ready {
			http.Error(w, r.URL.Path+" waits for etcd", http.StatusServiceUnavailable)
			return
		}
	}))
	defer s.Close()
	if err := probeURL(t.Context(), s.Client(), s.URL+"/readyz"); err == nil || !strings.Contains(err.Error(), "503 Service Unavailable: /readyz waits for etcd") {
		t.Error(err)
	}
	ready = true
	if err := probeURL(t.Context(), s.Client(), s.URL+"/readyz"); err != nil {
		t.Error(err)
	}
	s.Close()
	if err := probeURL(t.Context(), s.Client(), s.URL); err == nil {
		t.Error("a server that is gone is ready")
	}
}

// parentFolders returns the folders above a place in an image, from the top.
func TestParents(t *testing.T) {
	for place, want := range map[string]string{"/": "", "/tool": "", "/opt/more/program": "opt opt/more", "/a/b/": "a"} {
		if got := strings.Join(parentFolders(place), " "); got != want {
			t.Errorf("parents(%s) = %q, want %q", place, got, want)
		}
	}
}

// Kubectl passes the cluster's kubeconfig, and its error has kubectl's standard error.
func TestKubectl(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\necho \"$KUBECONFIG $*\"; cat\n[ \"$1\" != fail ] || { echo no such thing >&2; exit 1; }\n"
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	c := &Cluster{Parts: Parts{Kubernetes: dir}, Kubeconfig: "/c/admin.conf"}
	out, err := c.KubectlIn(t.Context(), strings.NewReader("manifest"), "apply", "-f", "-")
	if err != nil || string(out) != "/c/admin.conf apply -f -\nmanifest" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := c.Kubectl(t.Context(), "fail", "here"); err == nil || err.Error() != "kubectl fail here: exit status 1: no such thing" {
		t.Error(err)
	}
}
