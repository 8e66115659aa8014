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
	"github.com/culvert-net/culvert/test/soak"
)

// quickstart is the page that TestQuickstart follows.
const quickstart = top + "/docs/quickstart.md"

// elsewhere has the commands of the page that build the image, are for nodes, or write outside the
// tree. test/promises/commands.txt says what runs them.
var elsewhere = []string{
	"make build image VERSION=v0.1.0", "ctr -n k8s.io images import culvert.tar", `ln -sf "$PWD/build/bin/culvert" /usr/local/bin/kubectl-culvert`,
}

// TestQuickstart runs the commands of docs/quickstart.md in the page's order, in one shell, and
// compares what they print with the page. The examples on the page take the place of the lab's
// policy meanwhile. The API server and the webhooks judge the other examples. The name of this file puts the test before those that need another cluster.
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
	s := startShell(t, top)
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
	kubectl(t, append([]string{"apply", "--dry-run=server"}, further...)...)
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

// shell is a bash whose variables last from one command to the next.
type shell struct {
	env []string
	in  *bufio.Writer
	out *bufio.Scanner
	end func() error // ends it at once
}

// startShell starts a shell in a folder, which ends with the test. It has the cluster's kubeconfig, and kubectl
// with its plugin in PATH.
func startShell(t *testing.T, dir string) *shell {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash")
	path := t.TempDir()
	bin, err := filepath.Abs(top + "/build/bin/culvert")
	err = errors.Join(err, os.Symlink(bin, filepath.Join(path, "kubectl-culvert")))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "KUBECONFIG="+k8s.Kubeconfig, "PATH="+path+":"+k8s.Parts.Kubernetes+":"+os.Getenv("PATH"))
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
	return &shell{cmd.Env, bufio.NewWriter(in), bufio.NewScanner(out), cmd.Process.Kill}
}

// ended matches the line that the shell prints after a command: its exit status.
var ended = regexp.MustCompile(`^@@ended (\d+)$`)

// run runs a command, and returns what it prints. The command must succeed. An iperf3 server that does
// not listen yet, or still has another client, gets another try.
func (s *shell) run(t *testing.T, command string) string {
	t.Helper()
	for tries := 1; ; tries++ {
		out, status := s.try(t, command)
		switch {
		case status == "0", strings.Contains(out, "already exists"): // the cluster has Culvert
			return out
		case tries < 10 && strings.Contains(out, "iperf3: error - "):
			time.Sleep(time.Second)
		default:
			t.Fatalf("%s: status %s: %s", command, status, out)
		}
	}
}

// try runs a command, which must end within the time soon.
func (s *shell) try(t *testing.T, command string) (output, status string) {
	t.Helper()
	fmt.Fprintf(s.in, "{ %s\n} </dev/null 2>&1\necho \"@@ended $?\"\n", command)
	if err := s.in.Flush(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(soon, func() { _ = s.end() })
	defer late.Stop()
	var out bytes.Buffer
	for s.out.Scan() {
		if m := ended.FindStringSubmatch(s.out.Text()); m != nil {
			return out.String(), m[1]
		}
		out.WriteString(s.out.Text() + "\n")
	}
	t.Fatalf("%s: the shell ended: %v: %s", command, s.out.Err(), out.String())
	return "", ""
}

// further has the examples that the quickstart does not apply.
var further = []string{"-f", top + "/examples/bond.yaml", "-f", top + "/examples/guard.yaml", "-f", top + "/examples/vfio.yaml"}

// TestExamples runs the pods of the examples that the quickstart does not have.
func TestExamples(t *testing.T) {
	soak.Only(t, "three more pods; TestQuickstart has the API server and the webhooks judge the same files")
	need(t, twoNodes)
	nameImage(t)
	for _, node := range twoNodes.names {
		on(t, node, "modprobe vfio-pci")
	}
	kubectl(t, "delete", "nodepolicy", "lab")
	all := append([]string{"-f", top + "/examples/policy.yaml"}, further...)
	t.Cleanup(func() { kubectl(t, "apply", "-f", labPolicy) })
	t.Cleanup(func() { kubectl(t, append([]string{"delete", "--ignore-not-found", "--wait"}, all...)...) })
	kubectl(t, append([]string{"apply"}, all...)...)
	ready(t, "pod/bonded", "pod/guarded", "pod/dpdk")
	if bond := kubectl(t, "exec", "bonded", "--", "cat", "/proc/net/bonding/net1"); strings.Count(bond, "Slave Interface: net1") != 2 {
		t.Errorf("the bond is %s", bond)
	}
	if env := kubectl(t, "exec", "dpdk", "--", "bash", "-c", "env; ls /dev/vfio"); !regexp.MustCompile(`(?s)PCIDEVICE_CULVERT_DEV_DPDK=0000:02:1.*\n\d+\n`).MatchString(env) {
		t.Errorf("pod dpdk has %s", env)
	}
	node := kubectl(t, "get", "pod", "guarded", "-o", "jsonpath={.spec.nodeName}")
	if shown := on(t, node, "culvert vf show default/guarded"); !regexp.MustCompile(`guard +ip\W+enforced`).MatchString(shown) {
		t.Errorf("the guard of pod guarded: %s", shown)
	}
	kubectl(t, append([]string{"delete", "--wait"}, all...)...)
	allFree(t, allVFs)
}
