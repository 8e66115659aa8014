//go:build kubernetes

package kubernetes

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/test/promises"
)

// TestPage runs the commands of docs/kubernetes.md, and those of docs/doctor.md, docs/bench.md and
// docs/troubleshooting.md that kubectl runs, on a cluster with Culvert as they stand, with a pod
// default/a that has a VF. The name of this file puts it before the tests that
// need another cluster.
func TestPage(t *testing.T) {
	const inTheDaemonSet = "kubectl exec -n culvert-system daemonset/culvertd -- culvert doctor"
	networks(t)
	apply(t, pod("a", "worker01", "first"))
	running(t, 1)
	eventually(t, "a NodeState names the pod", func() error {
		all, err := vfs()
		if err == nil && !slices.ContainsFunc(all["worker01"], func(v v1alpha1.VFState) bool { return v.Owner != nil && v.Owner.Name == "default/a" }) {
			err = fmt.Errorf("none of %v", all["worker01"])
		}
		return err
	})
	daemon := kubectl(t, "-n", "culvert-system", "get", "pods", "-l", "app.kubernetes.io/name=culvertd",
		"--field-selector", "spec.nodeName=worker01", "-o", "jsonpath={.items[*].metadata.name}")
	// own replaces the names that a reader would replace.
	own := strings.NewReplacer("culvertd-x7k2p", daemon, "delete pods ...", "delete pods a")
	prints := map[string]string{
		"kubectl culvert":                                        `Usage:`,
		"culvert status --cluster":                               `worker01 +ready`,
		"kubectl get addresspools":                               `default-first\S* +default/first`,
		"kubectl get addresspools -o yaml":                       `worker01`,
		"kubectl culvert status":                                 `worker01 +ready(?s:.*)worker02 +ready`,
		"kubectl culvert status --node worker01":                 `enp1s0`,
		"kubectl culvert vf list --owner default/a":              `default/a`,
		"kubectl culvert pool list -o wide":                      intel,
		"kubectl get nodepolicies,nodestates,addresspools":       `nodestate\S*/worker01`,
		"kubectl get events -A --field-selector source=culvertd": `LAST SEEN|No resources found`, // a cluster without trouble has none
		"kubectl create clusterrolebinding ann-views-culvert --clusterrole=culvert-view --user=ann": `ann-views-culvert created`,
		"kubectl -n culvert-system exec culvertd-x7k2p -- culvert vf show default/a":                `default/a`,
		"kubectl -n culvert-system get pods":                                                        daemon,
		"kubectl -n culvert-system get pods -o wide":                                                daemon + ` .* worker01 `,
		"kubectl -n culvert-system logs culvertd-x7k2p":                                             `level=INFO`,
		"kubectl get nodestates":                                                                    `worker01`,
		"kubectl delete pods --field-selector status.phase=Failed":                                  `No resources found`,
		"kubectl delete pods ...":                                                                   `"a" deleted`,
		inTheDaemonSet:                                                                              `(?s)\nNICS\n.*\nKUBERNETES\n`,
	}
	for _, namespace := range []string{"default", "culvert-system"} {
		prints["kubectl delete pods,services -l app.kubernetes.io/managed-by=culvert-bench -n "+namespace] = "No resources found"
		prints["kubectl create rolebinding ann-measures --clusterrole=culvert-bench --user=ann -n "+namespace] = "ann-measures created"
		t.Cleanup(func() { kubectl(t, "delete", "rolebinding", "ann-measures", "-n", namespace) })
	}
	bin, err := filepath.Abs(top + "/build/bin/culvert")
	path := t.TempDir()
	for _, name := range []string{"culvert", "kubectl-culvert"} {
		err = errors.Join(err, os.Symlink(bin, filepath.Join(path, name)))
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../promises/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	table, err := promises.ParseTable(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range table.Of("test/kubernetes.TestPage") {
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", own.Replace(command))
		cmd.Env = append(os.Environ(), "KUBECONFIG="+k8s.Kubeconfig, "PATH="+path+":"+k8s.Parts.Kubernetes+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); command == inTheDaemonSet && errors.As(err, &exit) && exit.ExitCode() == 1 {
			err = nil // it has warnings
		}
		if want, said := prints[command]; err != nil || !said || !regexp.MustCompile(want).Match(out) {
			t.Errorf("%s: %v, and %q is not in:\n%s", command, err, want, out)
		}
	}
	t.Cleanup(func() { kubectl(t, "delete", "clusterrolebinding", "ann-views-culvert") })
	eventually(t, "ann sees nodes", func() error { // the API server has read the binding
		out, err := k8s.Kubectl(t.Context(), "--as", "ann", "get", "nodestates")
		if err == nil && !strings.Contains(string(out), "worker01") {
			err = fmt.Errorf("ann sees %q", out)
		}
		return err
	})
}
