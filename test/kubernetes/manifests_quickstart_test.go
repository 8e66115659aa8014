//go:build kubernetes

package kubernetes

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/test/promises"
)

// quickstart is the page that TestQuickstart follows.
const quickstart = top + "/docs/quickstart.md"

// elsewhere has the commands of the page that build the image, are for nodes, or write outside the
// tree. test/promises/commands.txt says what runs them.
var elsewhere = []string{
	"make build image", "ctr -n k8s.io images import culvert.tar", `ln -sf "$PWD/build/bin/culvert" /usr/local/bin/kubectl-culvert`,
}

// TestQuickstart runs the commands of docs/quickstart.md in the page's order, in one shell, and
// compares what they print with the page. The examples on the page take the place of the lab's
// policy meanwhile. The name of this file puts the test before those that need another cluster.
func TestQuickstart(t *testing.T) {
	need(t, twoNodes)
	text, err := os.ReadFile(quickstart)
	if err != nil {
		t.Fatal(err)
	}
	nameImage(t)
	kubectl(t, "delete", "nodepolicy", "lab")
	t.Cleanup(func() {
		kubectl(t, "delete", "--ignore-not-found", "--wait", "-f", top+"/examples/service.yaml", "-f", top+"/examples/deployment.yaml", "-f", top+"/examples/pod.yaml",
			"-f", top+"/examples/network.yaml", "-f", top+"/examples/policy.yaml")
		kubectl(t, "apply", "-f", labPolicy)
	})
	s := startShell(t)
	for _, step := range promises.Steps(string(text)) {
		if slices.Contains(elsewhere, step.Command) {
			continue
		}
		began := time.Now()
		out := s.run(t, step.Command)
		t.Logf("%.1f s: %s\n%s", time.Since(began).Seconds(), step.Command, out)
		for _, line := range step.Missing(out) {
			t.Errorf("%s: the page's line %q is not in:\n%s", step.Command, line, out)
		}
	}
	allFree(t, allVFs)
}

// nameImage gives the lab's image of tools the name of the examples' image, which is in a registry
// that the lab does not reach.
func nameImage(t *testing.T) {
	t.Helper()
	for _, node := range twoNodes.names {
		on(t, node, "ctr -n k8s.io images tag --force docker.io/centos/tools:latest docker.io/nicolaka/netshoot:latest")
	}
}

// shell is a bash in the source tree, whose variables last from one command to the next.
type shell struct {
	in  *bufio.Writer
	out *bufio.Scanner
}

// startShell starts a shell that ends with the test. It has the cluster's kubeconfig, and kubectl
// with its plugin in PATH.
func startShell(t *testing.T) *shell {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash")
	path := t.TempDir()
	bin, err := filepath.Abs(top + "/build/bin/culvert")
	err = errors.Join(err, os.Symlink(bin, filepath.Join(path, "kubectl-culvert")))
	cmd.Dir, cmd.Env = top, append(os.Environ(), "KUBECONFIG="+k8s.Kubeconfig, "PATH="+path+":"+k8s.Parts.Kubernetes+":"+os.Getenv("PATH"))
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	cmd.Stderr = os.Stderr
	if err := errors.Join(err, inErr, outErr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &shell{bufio.NewWriter(in), bufio.NewScanner(out)}
}

// ended matches the line that the shell prints after a command: its exit status.
var ended = regexp.MustCompile(`^@@ended (\d+)$`)

// run runs a command, and returns what it prints. The command must succeed.
func (s *shell) run(t *testing.T, command string) string {
	t.Helper()
	fmt.Fprintf(s.in, "{ %s\n} </dev/null 2>&1\necho \"@@ended $?\"\n", command)
	if err := s.in.Flush(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for s.out.Scan() {
		line := s.out.Text()
		if m := ended.FindStringSubmatch(line); m != nil {
			if m[1] != "0" && !strings.Contains(out.String(), "already exists") { // the cluster has Culvert
				t.Fatalf("%s: status %s: %s", command, m[1], out.String())
			}
			return out.String()
		}
		out.WriteString(line + "\n")
	}
	t.Fatalf("%s: the shell ended: %v: %s", command, s.out.Err(), out.String())
	return ""
}
