//go:build lab

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/test/apiserver"
)

// isolationFindings returns the findings of culvert doctor about namespace isolation in a
// cluster.
func isolationFindings(t *testing.T, socket, kubeconfig string) []api.Finding {
	t.Helper()
	out, _ := run(t.Context(), t, socket, "doctor", "-o", "json", "--kubeconfig", kubeconfig) // it fails if this host is unfit
	var r api.DoctorReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	var found []api.Finding
	for _, f := range r.Findings {
		if f.Check == "isolation" {
			found = append(found, f)
		}
	}
	return found
}

// culvert doctor names the rights that a user lacks. To a user who may list pods and
// networks it shows the pod that would be refused. After the real kubectl has run the
// doctor's command, it shows none.
func TestRealDoctor(t *testing.T) {
	s := apiserver.New(t)
	socket, viewer := new(culvertd).serve(t), s.Kubeconfig()
	text, err := os.ReadFile(viewer)
	if err != nil {
		t.Fatal(err)
	}
	admin := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(admin, []byte(strings.ReplaceAll(string(text), `"token": "viewer"`, `"token": "admin"`)), 0o600); err != nil {
		t.Fatal(err)
	}
	// expect waits for the findings, since the API server's caches may be older.
	expect := func(kubeconfig string, severity api.Severity, what string) (last api.Finding) {
		t.Helper()
		apiserver.Eventually(t, what, func() error {
			found := isolationFindings(t, socket, kubeconfig)
			if len(found) != 1 || found[0].Severity != severity || !strings.Contains(found[0].Object+": "+found[0].What, what) {
				return fmt.Errorf("found %+v", found)
			}
			last = found[0]
			return nil
		})
		return last
	}
	expect(viewer, api.SeverityNote, `pods is forbidden: User "viewer" cannot list resource "pods" in API group "" at the cluster scope`)
	expect(admin, api.SeverityOK, "cluster test: of 0 pods with networks, namespace isolation would refuse none")

	const networks = "/apis/k8s.cni.cncf.io/v1/namespaces/infra/network-attachment-definitions"
	for _, name := range []string{"infra", "team-a", "culvert-system"} {
		s.Must(http.MethodPost, "/api/v1/namespaces", fmt.Sprintf(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": %q}}`, name))
	}
	s.Must(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", manifestObject(t, "CustomResourceDefinition", "network-attachment-definitions.k8s.cni.cncf.io"))
	network := `{"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": {"name": "storage", "annotations": {"culvert.dev/namespaces": "team-b"}}, "spec": {"config": "{}"}}`
	apiserver.Eventually(t, "networks", func() error { return s.Do(http.MethodGet, networks, "", nil) })
	s.Must(http.MethodPost, networks, network)
	pod := func(namespace, metadata, spec string) {
		t.Helper()
		s.Must(http.MethodPost, "/api/v1/namespaces/"+namespace+"/pods", fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {%s}, "spec": {%s}}`, metadata, spec))
	}
	pod("team-a", `"name": "db", "annotations": {"k8s.v1.cni.cncf.io/networks": "infra/storage"}`, `"containers": [{"name": "c", "image": "i"}]`)
	expect(admin, api.SeverityNote, "network infra/storage: namespace isolation would refuse it to 1 pod: team-a/db")
	pod("culvert-system", `"name": "culvertd-x", "labels": {"app.kubernetes.io/name": "culvertd"}`,
		`"hostNetwork": true, "containers": [{"name": "culvertd", "image": "i", "args": ["--global-namespaces=default", "--namespace-isolation"]}]`)
	f := expect(admin, api.SeverityWarning, "network infra/storage: namespace isolation refuses it to 1 pod at the next start: team-a/db")

	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.Join(f.Mend, "\n"))
	cmd.Env = append(os.Environ(), "KUBECONFIG="+admin, "KUBECACHEDIR="+t.TempDir(), "PATH="+filepath.Dir(apiserver.Program(t, "kubernetes", "kubectl"))+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", f.Mend, err, out)
	}
	expect(admin, api.SeverityOK, "cluster test: of 1 pod with networks, namespace isolation refuses none")
	var now struct {
		Metadata struct{ Annotations map[string]string }
	}
	if err := s.Do(http.MethodGet, networks+"/storage", "", &now); err != nil || now.Metadata.Annotations["culvert.dev/namespaces"] != "team-a,team-b" {
		t.Errorf("%v, %v", now, err)
	}
}
