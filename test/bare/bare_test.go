//go:build lab

// Package bare makes bare lab nodes ready for Kubernetes and for Culvert: by the collection
// dist/ansible, and by culvert doctor.
package bare

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/test/promises"
)

const top = "../.."

func TestMain(m *testing.M) {
	lab.Reexec()
	os.Exit(m.Run())
}

// A host is a lab node without Culvert.
type host struct {
	*lab.Lab
	name   string
	debian string // the folder of tools/debian
}

// sh runs a script on the node up to the first command that fails, and returns its output.
func (h host) sh(t *testing.T, script string) string {
	t.Helper()
	out, exit := h.try(t, script)
	if exit != 0 {
		t.Fatalf("%s: exit status %d: %s\n%s", h.name, exit, script, out)
	}
	return out
}

// try runs a script on the node, and returns its output and its exit status.
func (h host) try(t *testing.T, script string) (out string, exit int) {
	t.Helper()
	var said bytes.Buffer
	exit, err := h.Exec(t.Context(), h.name, lab.Cmd{Argv: []string{"sh", "-euc", "exec 2>&1\n" + script}, Stdout: &said})
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	return said.String(), exit
}

// copyTo copies a file or tree of this machine to the node.
func (h host) copyTo(t *testing.T, from, to string) {
	t.Helper()
	if err := h.Copy(t.Context(), h.name, from, to); err != nil {
		t.Fatal(err)
	}
}

// unpack unpacks packages over the node's root, which is much faster than installing them where the
// processor is emulated. dpkg does not know of them.
func (h host) unpack(t *testing.T, packages ...string) {
	t.Helper()
	stage := t.TempDir()
	for _, name := range packages {
		files, err := filepath.Glob(filepath.Join(h.debian, "packages", name+"_*.deb"))
		if err != nil || len(files) != 1 {
			t.Fatalf("package %s: %v %v", name, files, err)
		}
		run(t, exec.CommandContext(t.Context(), "dpkg-deb", "--extract", files[0], stage))
	}
	if err := h.LayOver(t.Context(), h.name, stage); err != nil {
		t.Fatal(err)
	}
}

// giveApt gives the node apt and an archive, as every host of Debian has: the lab's image has
// neither, and its network no mirror.
func (h host) giveApt(t *testing.T) {
	t.Helper()
	h.unpack(t, "apt", "libapt-pkg7.0", "libseccomp2", "libstdc++6", "libxxhash0")
	h.copyTo(t, filepath.Join(h.debian, "packages"), "/var/lib/")
	h.sh(t, `rm -rf /etc/apt/sources.list.d
		echo "deb [trusted=yes] file:/var/lib/packages ./" >/etc/apt/sources.list
		grep -q ^_apt: /etc/passwd || echo _apt:x:42:65534::/nonexistent:/usr/sbin/nologin >>/etc/passwd
		apt-get -q update`)
}

// givePython gives the node the Python that Ansible's modules need.
func (h host) givePython(t *testing.T) {
	t.Helper()
	h.unpack(t, "python3", "python3-minimal", "python3.13", "python3.13-minimal", "libpython3-stdlib", "libpython3.13-minimal", "libpython3.13-stdlib",
		"libexpat1", "libffi8", "libsqlite3-0", "python3-apt")
}

// run runs a program of this machine, and returns its output.
func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := promises.Run(cmd)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return out
}

// fetchDebian returns the folder of tools/debian.
func fetchDebian(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(top, "tools/debian"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tools/debian: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// ansible is Ansible with the collection of this tree. It reaches a node of the lab.
type ansible struct {
	host
	env []string
}

// newAnsible installs the collection as docs/prepare.md does.
func newAnsible(t *testing.T, h host) ansible {
	t.Helper()
	from := absolute(t, top)
	home, tree := t.TempDir(), filepath.Join(h.debian, "ansible/usr")
	a := ansible{h, append(os.Environ(),
		"PATH="+filepath.Join(tree, "bin")+":"+os.Getenv("PATH"), "PYTHONPATH="+filepath.Join(tree, "lib/python3/dist-packages"), "ANSIBLE_HOME="+home,
		"ANSIBLE_NOCOLOR=1", "ANSIBLE_PIPELINING=1", "ANSIBLE_SSH_TRANSFER_METHOD=piped", "ANSIBLE_LOCALHOST_WARNING=false",
		"ANSIBLE_SSH_EXECUTABLE="+filepath.Join(from, "test/bare/testdata/ssh"),
		"CULVERT="+filepath.Join(from, "build/bin/culvert"), "CULVERT_LAB="+h.Lab.Name(),
	)}
	a.line(t, "ansible-galaxy collection install ./dist/ansible")
	return a
}

// line runs a line of the page in the source tree.
func (a ansible) line(t *testing.T, line string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", line)
	cmd.Dir, cmd.Env = top, a.env
	return run(t, cmd)
}

// counts are what Ansible counts of a host in its recap.
type counts struct{ ok, changed, failed int }

var recap = regexp.MustCompile(`(?m)^\S+ +: ok=(\d+) +changed=(\d+) +unreachable=0 +failed=(\d+) `)

// play runs a playbook of the collection on the node.
func (a ansible) play(t *testing.T, playbook string, args ...string) (c counts, out string) {
	t.Helper()
	out, err := promises.Run(a.playbook(t, playbook, args...))
	m := recap.FindStringSubmatch(out)
	if err != nil || m == nil {
		t.Fatalf("ansible-playbook %s: %v\n%s", playbook, err, out)
	}
	for i, n := range []*int{&c.ok, &c.changed, &c.failed} {
		*n, _ = strconv.Atoi(m[i+1])
	}
	if c.failed > 0 {
		t.Fatalf("ansible-playbook %s fails:\n%s", playbook, out)
	}
	return c, out
}

// fail runs a playbook that has to fail, and returns its output.
func (a ansible) fail(t *testing.T, playbook string, args ...string) string {
	t.Helper()
	out, err := promises.Run(a.playbook(t, playbook, args...))
	if err == nil {
		t.Errorf("ansible-playbook %s does not fail:\n%s", playbook, out)
	}
	return out
}

// playbook returns the command that runs a playbook of the collection on the node.
func (a ansible) playbook(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	program := filepath.Join(a.debian, "ansible/usr/bin/ansible-playbook")
	cmd := exec.CommandContext(t.Context(), program, append([]string{"culvert_net.culvert." + name, "--inventory", a.name + ","}, args...)...)
	cmd.Env = a.env
	return cmd
}

// newHost brings a lab of one node up.
func newHost(t *testing.T, o lab.Options) host {
	t.Helper()
	debian := fetchDebian(t)
	o.Nodes, o.Bound, o.Progress = 1, true, os.Stderr
	l, err := lab.Up(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { takeDown(t, l) })
	return host{l, "worker01", debian}
}

func takeDown(t *testing.T, l *lab.Lab) {
	if err := lab.Down(context.Background(), l.Name()); err != nil {
		t.Error(err)
	}
}

// mentions checks that a text has all words.
func mentions(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in:\n%s", w, text)
		}
	}
}

func absolute(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
