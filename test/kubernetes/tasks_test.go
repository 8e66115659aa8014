//go:build kubernetes

package kubernetes

import (
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
	"github.com/culvert-net/culvert/test/soak"
)

// fresh is a cluster that no other test has used.
var fresh = &site{names: twoNodes.names}

// TestTasks does the tasks of docs/tasks.md that need a cluster, on a fresh one, by the commands of the
// pages in their order. A command that no page has is a step that the page leaves to its reader, and
// stands in the test.
func TestTasks(t *testing.T) {
	soak.Only(t, "a cluster of its own, an image, two rollouts and an uninstallation")
	need(t, fresh)
	nameImage(t)
	tasks := &reader{shell: startShell(t, top)}
	for _, task := range []struct {
		name string
		do   func(*testing.T, *reader)
	}{
		{"install on a cluster", installOnCluster}, {"the first pod", startFirstPod}, {"why does a pod wait", findWhyPodWaits},
		{"which VF is loud", findLoudVF}, {"upgrade", upgrade}, {"roll back", rollBack}, {"uninstall", uninstall},
	} {
		if !t.Run(task.name, func(t *testing.T) { task.do(t, tasks) }) {
			t.Fatal(state()) // the next task needs what this one made
		}
	}
}

// reader is a person with the documents and a shell.
type reader struct{ *shell }

// follow runs the commands of a section, in its order. own has the names that a reader replaces, in
// pairs. Commands that begin with one of skip are for other places. It returns all that was printed.
func (r *reader) follow(t *testing.T, page, section string, own []string, skip ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, page))
	if err != nil {
		t.Fatal(err)
	}
	body, err := promises.Section(string(text), section)
	if err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	var all strings.Builder
	for _, step := range promises.Steps(body) {
		if hasPrefix(step.Command, skip) {
			continue
		}
		out := r.run(t, strings.NewReplacer(own...).Replace(step.Command))
		t.Logf("%s\n%s", step.Command, out)
		for _, line := range step.Missing(out) {
			t.Errorf("%s: %s: the page's line %q is not in:\n%s", page, step.Command, line, out)
		}
		all.WriteString(out)
	}
	return all.String()
}

func hasPrefix(s string, all []string) bool {
	for _, p := range all {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// poolVFs is the number of VFs that the quickstart makes in the cluster.
const poolVFs = 14

const quickstartPage = "docs/quickstart.md"

func installOnCluster(t *testing.T, r *reader) {
	// One architecture, since the nodes have one, and any Go, since no digest is compared.
	if out, err := promises.Run(promises.Make(t.Context(), top, "build", "image", "VERSION=v0.1.0", "IMAGE=-arch amd64 -go any")); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, node := range fresh.names {
		if err := k8s.Lab.Copy(t.Context(), node, top+"/build/image/culvert.tar", "/root/culvert.tar"); err != nil {
			t.Fatal(err)
		}
		on(t, node, "cd /root; ctr -n k8s.io images import culvert.tar")
	}
	r.follow(t, quickstartPage, "2. Install Culvert", nil, "ln -sf ")
}

func startFirstPod(t *testing.T, r *reader) {
	for _, section := range []string{"3. Make VFs", "4. Declare the network", "5. Start pods with a VF", "6. Ping and iperf3"} {
		r.follow(t, quickstartPage, section, nil)
	}
}

// findWhyPodWaits asks for more pods than there are VFs.
func findWhyPodWaits(t *testing.T, r *reader) {
	r.run(t, fmt.Sprintf("kubectl scale deployment/server --replicas=%d", poolVFs+1))
	r.run(t, "until kubectl get pods -l app=server --field-selector status.phase=Pending -o name | grep .; do sleep 1; done")
	waits := ""
	eventually(t, "the scheduler judges a pod that no VF is left for", func() error {
		for _, name := range strings.Fields(r.run(t, "kubectl get pods -l app=server --field-selector status.phase=Pending -o name")) {
			if strings.Contains(r.run(t, "kubectl describe "+name), "FailedScheduling") {
				waits = strings.TrimPrefix(name, "pod/")
				return nil
			}
		}
		return fmt.Errorf("none yet")
	})
	said := r.follow(t, "docs/troubleshooting.md", "A pod of a VF network does not start", []string{"NAME", waits})
	if !strings.Contains(said, "no node has a VF of culvert.dev/fast free") || !strings.Contains(said, "Insufficient culvert.dev/fast") {
		t.Errorf("the page's commands do not show why pod %s waits:\n%s", waits, said)
	}
	r.run(t, "kubectl scale deployment/server --replicas=1")
	r.run(t, "until [ $(kubectl get pods -l app=server -o name | wc -l) = 1 ]; do sleep 1; done")
}

// findLoudVF lets pod client send, and looks for it on its node.
func findLoudVF(t *testing.T, r *reader) {
	node := kubectl(t, "get", "pod", "client", "-o", "jsonpath={.spec.nodeName}")
	daemon := kubectl(t, "-n", "culvert-system", "get", "pods", "-l", "app.kubernetes.io/name=culvertd",
		"--field-selector", "spec.nodeName="+node, "-o", "jsonpath={.items[*].metadata.name}")
	r.run(t, `server=$(kubectl exec deployment/server -- ip -4 -brief address show dev net1 | grep -o '172[0-9.]*')`)
	sender := exec.CommandContext(t.Context(), "kubectl", "exec", "client", "--", "iperf3", "-c", strings.TrimSpace(r.run(t, "echo $server")), "-t", "60")
	sender.Env, sender.Path = r.env, filepath.Join(k8s.Parts.Kubernetes, "kubectl")
	if err := sender.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sender.Wait() }()
	eventually(t, "pod client is the loudest of "+node, func() error {
		out := r.run(t, "kubectl -n culvert-system exec "+daemon+" -- culvert vf top")
		if first := strings.Split(out, "\n"); len(first) < 2 || !regexp.MustCompile(`default/client .* [MG]b/s`).MatchString(first[1]) {
			return fmt.Errorf("it shows\n%s", out)
		}
		return nil
	})
	r.follow(t, "docs/troubleshooting.md", "A VF is too loud", []string{"culvertd-x7k2p", daemon})
}

// nextVersion makes a copy of the files of a release, as a later release has them: with another name
// of the image, which the nodes have.
func nextVersion(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	manifest, err := os.ReadFile(top + "/dist/kubernetes/culvert.yaml")
	if err != nil {
		t.Fatal(err)
	}
	image := regexp.MustCompile(`image: (\S+/culvert:\S+)`).FindStringSubmatch(string(manifest))
	if image == nil {
		t.Fatal("the manifest names no image")
	}
	next := image[1][:strings.LastIndex(image[1], ":")] + ":next"
	for _, node := range fresh.names {
		on(t, node, "ctr -n k8s.io images tag --force "+image[1]+" "+next)
	}
	if err := os.MkdirAll(dir+"/dist/kubernetes", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/dist/kubernetes/culvert.yaml", []byte(strings.ReplaceAll(string(manifest), image[1], next)), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func upgrade(t *testing.T, r *reader) {
	before, err := vfs()
	if err != nil {
		t.Fatal(err)
	}
	later := &reader{startShell(t, nextVersion(t))}
	later.follow(t, "docs/kubernetes.md", "Upgrade and roll back", nil, "kubectl -n culvert-system rollout undo", "helm ")
	runsImage(t, ":next")
	keepsVFs(t, r, before)
}

func rollBack(t *testing.T, r *reader) {
	before, err := vfs()
	if err != nil {
		t.Fatal(err)
	}
	r.follow(t, "docs/kubernetes.md", "Upgrade and roll back", nil, "kubectl apply", "helm ")
	r.run(t, "kubectl -n culvert-system rollout status daemonset/culvertd --timeout=10m")
	runsImage(t, ":v")
	keepsVFs(t, r, before)
}

// runsImage fails the test unless each culvertd and controller has an image whose name contains part.
func runsImage(t *testing.T, part string) {
	t.Helper()
	for _, image := range strings.Fields(kubectl(t, "-n", "culvert-system", "get", "daemonset/culvertd", "deployment/culvert-controller", "-o", "jsonpath={.items[*].spec.template.spec.containers[0].image}")) {
		if !strings.Contains(image, part) {
			t.Errorf("%s runs", image)
		}
	}
}

// keepsVFs fails the test unless the pods have the VFs that they had, and reach each other by them.
func keepsVFs(t *testing.T, r *reader, before map[string][]v1alpha1.VFState) {
	t.Helper()
	var after map[string][]v1alpha1.VFState
	eventually(t, "the new culvertd has read the policies", func() (err error) {
		if after, err = vfs(); err != nil {
			return err
		}
		for node, all := range after {
			if slices.ContainsFunc(all, func(v v1alpha1.VFState) bool { return v.Pool == "" }) {
				return fmt.Errorf("%s reports VFs without a pool", node)
			}
		}
		return nil
	})
	sameVFs(t, before, after)
	r.run(t, "kubectl exec client -- ping -c 3 $server")
}

func uninstall(t *testing.T, r *reader) {
	own := []string{"delete pods ...", "delete --wait -f examples/deployment.yaml -f examples/pod.yaml"}
	r.follow(t, "docs/kubernetes.md", "Uninstall", own, "helm ")
	for _, node := range fresh.names {
		gone(t, node)
	}
}
