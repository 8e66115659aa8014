//go:build lab

package chart

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/test/apiserver"
)

// helm install prints its notes, and helm uninstall ends, in a cluster without a node, where the Job that gives Services back never runs,
// nor would its image be there. It names the Job, and keeps the release. With --no-hooks it removes
// everything but what the page lists, and the page's command removes that.
func TestUninstallWithoutANode(t *testing.T) {
	s := apiserver.New(t)
	s.RunControllers("job-controller")
	kubeconfig := s.AdminKubeconfig()
	apiserver.Eventually(t, "namespace kube-system", func() error { return s.Do(http.MethodGet, "/api/v1/namespaces/kube-system", "", nil) })
	requireNotes(t, kubeconfig)
	run := func(args ...string) (string, error) {
		return helm(t, kubeconfig, append(args, "--namespace", "culvert-system")...)
	}
	if _, err := run("install", "culvert", chart, "--create-namespace", "--set", "image.name=registry.invalid/none:v1,controller.releaseTimeoutSeconds=15"); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, err := run("uninstall", "culvert")
	took := time.Since(start).Round(time.Second)
	if err == nil || !strings.Contains(err.Error(), "job culvert-release-services failed: DeadlineExceeded") { // Helm's own end has another text
		t.Fatalf("after %s: %v", took, err)
	}
	t.Logf("helm uninstall ended after %s, of which the Job has 15 s", took)
	if out, err := run("list", "--all", "--short"); err != nil || strings.TrimSpace(out) != "culvert" {
		t.Errorf("the release is gone, and with it the rights to give Services back: %q, %v", out, err)
	}
	requireWayBack(t, kubeconfig, run)
	out, err := run("uninstall", "culvert", "--no-hooks")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"nodepolicies.culvert.dev", "nodestates.culvert.dev", "addresspools.culvert.dev", "network-attachment-definitions.k8s.cni.cncf.io"} {
		if !strings.Contains(out, "[CustomResourceDefinition] "+kind+"\n") {
			t.Errorf("helm does not say that CRD %s is left:\n%s", kind, out)
		}
	}
	left := []string{"job.batch/culvert-release-services", "role.rbac.authorization.k8s.io/culvert-release-services", "rolebinding.rbac.authorization.k8s.io/culvert-release-services"}
	if diff := cmp.Diff(left, listOwn(t, kubeconfig)); diff != "" {
		t.Errorf("left after --no-hooks (-want +got):\n%s", diff)
	}
	kubectl(t, kubeconfig, "-n", "culvert-system", "delete", "job,role,rolebinding", "culvert-release-services", "--ignore-not-found")
	if all := listOwn(t, kubeconfig); len(all) > 0 {
		t.Errorf("left after the page's command: %v", all)
	}
}

// requireWayBack checks that a person who keeps Culvert after all gets the controllers back by a
// roll-back, since Helm upgrades no release of which an uninstallation failed.
func requireWayBack(t *testing.T, kubeconfig string, run func(...string) (string, error)) {
	t.Helper()
	kubectl(t, kubeconfig, "-n", "culvert-system", "scale", "deployment/culvert-controller", "--replicas=0") // as the Job does first
	if _, err := run("upgrade", "culvert", chart); err == nil || !strings.Contains(err.Error(), "has no deployed releases") {
		t.Errorf("an upgrade: %v", err)
	}
	if _, err := run("rollback", "culvert", "1"); err != nil {
		t.Error(err)
	}
	if replicas := kubectl(t, kubeconfig, "-n", "culvert-system", "get", "deployment/culvert-controller", "-o", "jsonpath={.spec.replicas}"); replicas != "2" {
		t.Errorf("%s controllers after the roll-back", replicas)
	}
}

// listOwn returns the names of Culvert's objects but its CRDs.
func listOwn(t *testing.T, kubeconfig string) (all []string) {
	t.Helper()
	const kinds = "jobs,roles,rolebindings,daemonsets,deployments,services,serviceaccounts,networkpolicies,poddisruptionbudgets,clusterroles,clusterrolebindings," +
		"mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings"
	for _, name := range strings.Fields(kubectl(t, kubeconfig, "get", kinds, "--all-namespaces", "--output", "name")) {
		if strings.Contains(name, "culvert") {
			all = append(all, name)
		}
	}
	return all
}

// kubectl runs kubectl, and returns what it printed.
func kubectl(t *testing.T, kubeconfig string, args ...string) string {
	t.Helper()
	out, err := kubectlCommand(t, kubeconfig, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// kubectlCommand returns kubectl, not started yet.
func kubectlCommand(t *testing.T, kubeconfig string, args ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), apiserver.Program(t, "kubernetes", "kubectl"), append([]string{"--kubeconfig", kubeconfig}, args...)...)
}
