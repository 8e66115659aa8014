package skew

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/test/child"
	"github.com/culvert-net/culvert/test/skew/story"
)

const top = "../.."

// version has the programs of one version of Culvert.
type version struct{ name, bin string }

// oldest returns the commit in oldest.txt.
func oldest(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("oldest.txt")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// unpackOldest returns a folder with the tree of the oldest commit, which gets this tree's package
// story unless it has one of its own.
func unpackOldest(t *testing.T) string {
	t.Helper()
	commit, dir := oldest(t), t.TempDir()
	script := fmt.Sprintf(`set -e; git -C %s archive %s | tar -x -C %s; test -d %[3]s/test/skew/story || { mkdir -p %[3]s/test/skew; cp -r story node %[3]s/test/skew; }`, top, commit, dir)
	if out, err := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s: the clone needs the commit %s: git fetch --unshallow", err, out, commit)
	}
	return dir
}

// buildPrograms builds the programs of a tree.
func buildPrograms(t *testing.T, name, tree string) version {
	t.Helper()
	v := version{name, t.TempDir()}
	begin := time.Now()
	build := exec.CommandContext(t.Context(), "tools/go", "build", "-o", v.bin+"/", "./cmd/culvert", "./cmd/culvert-cni", "./cmd/culvert-hook", "./test/skew/node")
	build.Dir = tree
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the %s programs: %v\n%s", name, err, out)
	}
	t.Logf("%s programs: built in %.0f s", name, time.Since(begin).Seconds())
	return v
}

// node is a running node program, in a folder that outlives it.
type node struct {
	t      *testing.T
	dir    string
	cmd    *exec.Cmd
	stderr bytes.Buffer
}

func (n *node) socket() string { return filepath.Join(n.dir, "s") }

// newDir returns a folder for a node. The path of t.TempDir is too long for a socket.
func newDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "skew") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// startNode starts the node program of a version, and returns when it answers.
func startNode(t *testing.T, v version, dir string) *node {
	t.Helper()
	n := &node{t: t, dir: dir, cmd: exec.CommandContext(t.Context(), filepath.Join(v.bin, "node"), dir)}
	n.cmd.Stderr = &n.stderr
	if err := child.Start(n.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.stop)
	ended := make(chan struct{})
	go func() { _ = n.cmd.Wait(); close(ended) }()
	for {
		select {
		case <-ended:
			t.Fatalf("the %s node did not start: %s", v.name, &n.stderr)
		case <-time.After(20 * time.Millisecond):
		}
		if c, err := net.Dial("unix", n.socket()); err == nil {
			c.Close()
			return n
		}
	}
}

// stop ends the node, as systemd would.
func (n *node) stop() {
	if n.cmd.Process.Signal(syscall.SIGTERM) != nil {
		return // it has ended
	}
	for range 3000 {
		if n.cmd.Process.Signal(syscall.Signal(0)) != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	n.t.Errorf("the node does not end: %s", &n.stderr)
}

// runCulvert runs a command of the CLI of a version against the node, and returns what it prints.
func (n *node) runCulvert(v version, args ...string) string {
	n.t.Helper()
	cmd := exec.CommandContext(n.t.Context(), filepath.Join(v.bin, "culvert"), append([]string{"--socket", n.socket()}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.t.Errorf("%s culvert %s: %v\n%s", v.name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// runShim runs the shim of a version as a runtime would, and returns its output.
func (n *node) runShim(v version, command, container, config string) (string, error) {
	cmd := exec.CommandContext(n.t.Context(), filepath.Join(v.bin, "culvert-cni"))
	cmd.Env = []string{
		"CULVERT_SOCKET=" + n.socket(), "CNI_COMMAND=" + command, "CNI_CONTAINERID=" + container, "CNI_NETNS=" + story.Netns(container),
		"CNI_IFNAME=net1", "CNI_PATH=" + v.bin, "PATH=" + os.Getenv("PATH"),
	}
	cmd.Stdin = strings.NewReader(config)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// mustRunShim is runShim for calls that succeed.
func (n *node) mustRunShim(v version, command, container, config string) string {
	n.t.Helper()
	out, err := n.runShim(v, command, container, config)
	if err != nil {
		n.t.Errorf("%s shim, %s of %s: %v\n%s", v.name, command, container, err, out)
	}
	return out
}

// runHook runs the hook of a version as libvirt does when the guest db1 starts (prepare begin) or has
// ended (release end). The hook has its socket in a namespace of its own.
func (n *node) runHook(v version, operation ...string) {
	n.t.Helper()
	definition, err := os.ReadFile(filepath.Join(n.dir, "db1.xml"))
	if err != nil {
		n.t.Fatal(err)
	}
	script := `mount -t tmpfs none /run && mkdir /run/culvert && ln -s "$1/s" /run/culvert/culvertd.sock && exec "$2" db1 "$3" "$4" -`
	args := append([]string{"--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", n.dir, filepath.Join(v.bin, "culvert-hook")}, operation...)
	cmd := exec.CommandContext(n.t.Context(), "unshare", args...)
	cmd.Stdin = bytes.NewReader(definition)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		n.t.Errorf("%s hook, %s: %v: %s", v.name, operation, err, out)
	}
}

// withResult returns a configuration with the answer to its ADD, as a CHECK has it.
func withResult(t *testing.T, config, result string) string {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(config), &all); err != nil {
		t.Fatal(err)
	}
	all["prevResult"] = json.RawMessage(result)
	out, err := json.Marshal(all)
	if err != nil {
		t.Fatalf("%v: %s", err, result)
	}
	return string(out)
}

// addOf returns the answer to the ADD of a container of the story.
func (n *node) addOf(container string) string {
	n.t.Helper()
	out, err := os.ReadFile(filepath.Join(n.dir, container+".json"))
	if err != nil {
		n.t.Fatal(err)
	}
	return string(out)
}

// dump returns the ledger of a node in the fields that all versions have.
func (n *node) dump(v version) ledger {
	n.t.Helper()
	return parseLedger(n.t, []byte(n.runCulvert(v, "ledger", "dump", "-o", "json")))
}

// ledger is the part of a ledger that must survive another version of culvertd.
type ledger struct {
	Format  string
	Records []struct {
		VF, PCI, Phase, Network, Pool, Netns, Reason string
		Generation                                   int
		Attempts                                     int
		Owner, Bond, Wanted, Given, Baseline         any
	}
	Addresses []struct {
		Network, Address, VF string
		Owner                any
	}
	Problems []any
}

func parseLedger(t *testing.T, text []byte) (l ledger) {
	t.Helper()
	if err := json.Unmarshal(text, &l); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return l
}

// count returns how many VFs are in a phase.
func (l ledger) count(phase string) (n int) {
	for _, r := range l.Records {
		if r.Phase == phase {
			n++
		}
	}
	return n
}

// checkStory checks that the owners of the story have their VFs: c1 one, c2 two and the guest one,
// and that one VF is in quarantine.
func checkStory(t *testing.T, l ledger) {
	t.Helper()
	if l.count("attached") != 4 || l.count("quarantined") != 1 || l.count("free") != 7 || len(l.Addresses) != 3 || len(l.Problems) > 0 {
		t.Errorf("%d attached, %d quarantined, %d free, addresses %v, problems %v", l.count("attached"), l.count("quarantined"), l.count("free"), l.Addresses, l.Problems)
	}
}

// checkEnd checks that all VFs are free but the one in quarantine, which still has its address.
func checkEnd(t *testing.T, l ledger) {
	t.Helper()
	if l.count("free") != 11 || l.count("quarantined") != 1 || len(l.Addresses) != 1 || len(l.Problems) > 0 {
		t.Errorf("%d free, %d quarantined, addresses %v, problems %v", l.count("free"), l.count("quarantined"), l.Addresses, l.Problems)
	}
}

func compareLedgers(t *testing.T, what string, want, got ledger) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-before +after):\n%s", what, diff)
	}
}

// endStory gives back all VFs, as a runtime and libvirt do.
func (n *node) endStory(programs version) {
	n.t.Helper()
	for _, c := range []string{"c1", "c2"} {
		n.mustRunShim(programs, "DEL", c, withResult(n.t, story.Config(c), n.addOf(c)))
	}
	n.runHook(programs, "release", "end")
}
