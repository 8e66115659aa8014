//go:build lab

package promises

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/demo/node"
	"github.com/culvert-net/culvert/test/labs"
	"github.com/culvert-net/culvert/test/soak"
)

func TestMain(m *testing.M) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	go func() { // until the process ends
		<-ended
		os.Exit(max(1, takeDown()))
	}()
	status := m.Run()
	os.Exit(max(status, takeDown()))
}

// takeDown takes the lab of hosts down, if there is one: make lab leaves it up. It
// returns the exit status.
func takeDown() int {
	if name := hosts.Load(); name != nil {
		if err := lab.Down(context.Background(), *name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

// run runs make for a target, and returns its output.
func run(t *testing.T, args ...string) string {
	t.Helper()
	return finish(t, Make(t.Context(), top, args...))
}

// shell runs a line of a page in the source tree.
func shell(t *testing.T, line string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", line)
	cmd.Dir = top
	return finish(t, cmd)
}

func finish(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := Run(cmd)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return out
}

// mentions checks that a text matches all patterns.
func mentions(t *testing.T, what, text string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(text) {
			t.Errorf("%s: %q is not in:\n%s", what, p, text)
		}
	}
}

// step is how a command of a page is run.
type step struct {
	before string   // script to run before the command
	prints []string // patterns
}

// runStep runs a command of a page on a node.
func runStep(t *testing.T, n node.Node, command string, s step) string {
	t.Helper()
	// The script runs as root, so that sudo only runs its arguments.
	out, err := n.Script(t.Context(), command, "sudo() { \"$@\"; }; mkdir -p /root/page; cd /root/page\n"+s.before+"\n"+command+" 2>&1")
	if err != nil {
		t.Fatal(err)
	}
	mentions(t, command, string(out), s.prints...)
	return string(out)
}

// document is a page with the names of its example that a reader replaces, in pairs.
type document struct {
	file string
	own  []string
}

// follow runs on a node the commands of a section's code blocks, in the page's order. A command
// without a step needs nothing before it, and may print anything. Commands that begin with one of
// skip are for another place.
func (d document) follow(t *testing.T, n node.Node, section string, steps map[string]step, skip ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, d.file))
	if err != nil {
		t.Fatal(err)
	}
	body, err := Section(string(text), section)
	if err != nil {
		t.Fatalf("%s: %v", d.file, err)
	}
	left, own := maps.Clone(steps), strings.NewReplacer(d.own...)
	for _, on := range Steps(body) {
		if !slices.ContainsFunc(skip, func(s string) bool { return strings.HasPrefix(on.Command, s) }) {
			runStep(t, n, own.Replace(on.Command), steps[on.Command])
			delete(left, on.Command)
		}
	}
	for command := range left {
		t.Errorf("%s, %s: %s is not among its commands", d.file, section, command)
	}
}

// followSentences runs on a node those commands of the table that this test runs and steps has, in the
// table's order: commands that sentences of pages name.
func followSentences(t *testing.T, n node.Node, steps map[string]step) {
	t.Helper()
	followed := 0
	test, _, _ := strings.Cut(t.Name(), "/")
	for _, command := range table(t).Of("test/promises." + test) {
		if s, here := steps[command]; here {
			followed++
			runStep(t, n, command, s)
		}
	}
	if followed != len(steps) {
		t.Errorf("commands.txt has %d of the %d commands that this test runs on a node: keep both the same", followed, len(steps))
	}
}

// demo reads the file that a demo wrote, and checks that no VF leaked.
func demo(t *testing.T, file string, vfs int) {
	t.Helper()
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var found struct {
		Created int `json:"vfs_created"`
		Leaked  int `json:"leaked"`
	}
	if err := json.Unmarshal(body, &found); err != nil || found.Created != vfs || found.Leaked != 0 {
		t.Errorf("%v: %s", err, body)
	}
}

// TestDemo runs make demo in its quick form.
func TestDemo(t *testing.T) {
	dir := t.TempDir()
	run(t, "demo", "DEMO=--quick --name "+labs.Name("promises-demo")+" --out "+dir)
	demo(t, filepath.Join(dir, "demo.json"), 28)
	for _, name := range []string{"report.txt", "report.html", "report.json.gz"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// make install installs the programs of make build below DESTDIR, and make uninstall removes all
// files again.
func TestInstall(t *testing.T) {
	root := t.TempDir()
	run(t, "build")
	mentions(t, "make install", run(t, "install", "DESTDIR="+root), `(?m)^\s*\+ .*/usr/local/bin/culvertd`)
	if out, err := exec.CommandContext(t.Context(), filepath.Join(root, "usr/local/bin/culvert"), "version").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	run(t, "uninstall", "DESTDIR="+root)
	if err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("make uninstall leaves %s", path)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// make image writes an image of both architectures. With -short it is an image of amd64 alone,
// since make would compile all imports of the programs once more for arm64.
func TestImage(t *testing.T) {
	if testing.Short() {
		mentions(t, "make image", run(t, "image", "IMAGE=-arch amd64"), `(?m)^build/image/culvert\.tar `, `(?m)^ +amd64 `)
	} else {
		mentions(t, "make image", run(t, "image"), `(?m)^build/image/culvert\.tar `, `(?m)^ +amd64 `, `(?m)^ +arm64 `)
	}
	if _, err := os.Stat(filepath.Join(top, "build/image/culvert.tar")); err != nil {
		t.Error(err)
	}
}

// make check is run in a copy of the tree in which one package has changed. A finding
// of the linter makes it fail. The copy has no tests but those of that package and of one of its
// importers, since the job unit runs all of them.
func TestMakeCheck(t *testing.T) {
	soak.Only(t, "the linter and the tests of two packages once more")
	dir := t.TempDir()
	shell(t, `{ git ls-files -z -co --exclude-standard ':!*_test.go'; git ls-files -z -co --exclude-standard tools/gotest; } |
		tar --create --null --files-from - --ignore-failed-read | tar --extract --directory '`+dir+`'
		cd '`+dir+`'
		git init --quiet
		git add --all
		git -c user.name=t -c user.email=t@culvert.invalid commit --quiet --message tree
		printf '\n// changed\n' >>tools/gotest/outcome/outcome.go`)
	out := finish(t, Make(t.Context(), dir, "check", "BASE=HEAD"))
	mentions(t, "make check", out, "check: build: ok", "check: lint: ok", "check: test of changed packages, -race: ok", "check: test of their importers: ok")
	shell(t, `echo 'func uncalled() {}' >>'`+dir+`/tools/gotest/outcome/outcome.go'`)
	out, err := Run(Make(t.Context(), dir, "check", "BASE=HEAD"))
	if err == nil {
		t.Error("make check passes, although the linter finds something")
	}
	mentions(t, "make check", out, "check: build: ok", `(?m)^tools/gotest/outcome/outcome\.go:\d+:\d+: func uncalled is unused(?s:.*)^check: lint failed`)
}

// hostsLab begins the name of hosts.
const hostsLab = "promises-hosts"

// hosts is the name of the lab whose nodes are hosts without Culvert. It is nil until make lab
// was called.
var hosts atomic.Pointer[string]

// host brings the lab up by make lab, unless it is up, and returns one of its two nodes.
func host(t *testing.T, number int) node.Node {
	t.Helper()
	name := labs.Name(hostsLab)
	if hosts.CompareAndSwap(nil, &name) {
		run(t, "lab", "LAB=--name "+name)
	}
	l, err := lab.Open(name)
	if err == nil {
		err = labs.ClearDead(t.Context(), l, hostsLab)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return node.Of(l, number)[number-1]
}

// fromPage returns the code block of a page that is in a language and contains a word.
func fromPage(t *testing.T, page, language, word string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, page))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(block[1], word) {
			return []byte(block[1])
		}
	}
	t.Fatalf("%s has no block of %s with %s", page, language, word)
	return nil
}

// awaitHealth waits, a minute at most, until culvertd reports no problem.
const awaitHealth = `for i in $(seq 60); do [[ $(culvert status) == *"Nothing is wrong"* ]] && break; sleep 1; done`

// TestInstallPage runs the commands of docs/install.md on a host that has container runtimes: it
// installs Culvert from a copy of build/bin, makes the VFs that the page declares, gives one to a
// network namespace, and removes Culvert. Meanwhile it runs those of docs/operations.md and
// docs/troubleshooting.md that need such a host.
func TestInstallPage(t *testing.T) {
	n := host(t, 1)
	parts, err := node.FindParts(t.Context(), top, func(s string) { t.Log(s) })
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{parts.CNI: "/opt/cni/bin", filepath.Join(top, "build/bin"): "/root/culvert"} {
		if err := n.Lab.Copy(t.Context(), n.Name, from, to); err != nil {
			t.Fatal(err)
		}
	}
	ports := []string{"enp1s0f0", "enp1s0", "enp1s0f1", "enp2s0"}
	yaml := strings.NewReplacer(ports...).Replace(string(fromPage(t, "docs/install.md", "yaml", "name: fast")))
	for path, body := range map[string][]byte{
		"/root/page/host.yaml":               []byte(yaml),
		"/root/page/new.yaml":                []byte(strings.Replace(yaml, "max", "6", 1)),
		"/etc/cni/net.d/10-storage.conflist": fromPage(t, "docs/install.md", "json", `"storage"`),
	} {
		if err := n.WriteFile(t.Context(), path, body); err != nil {
			t.Fatal(err)
		}
	}
	install := document{"docs/install.md", ports}
	installOnHost(t, n, install)
	operate(t, n, document{"docs/operations.md", ports}, document{"docs/troubleshooting.md", ports})
	followSentences(t, n, map[string]step{
		"culvert host apply":                 {},
		"culvert host install":               {prints: []string{`(?m)^ *= /usr/local/bin/culvertd`}},
		"culvert host install --dry-run":     {prints: []string{`(?m)^ *= /usr/local/bin/culvertd`}},
		"culvertd leave-pod-networks":        {before: "cp /etc/cni/net.d/10-storage.conflist /etc/cni/net.d/00-culvert.conflist"},
		"culvert host uninstall --parts cni": {prints: []string{`(?m)^ *- /opt/cni/bin/culvert`}},
	})
	install.follow(t, n, "Taking it away", map[string]step{"culvert host uninstall": {prints: []string{"culvertd"}}})
	if out, err := n.Run(t.Context(), "ls", "/usr/local/bin/culvert", "/opt/cni/bin/culvert", "/etc/cni/net.d/00-culvert.conflist"); err == nil || len(out) > 0 {
		t.Errorf("culvert host uninstall leaves %s", out)
	}
}

// installOnHost installs Culvert, declares the VFs and tries the network, as docs/install.md says.
func installOnHost(t *testing.T, n node.Node, page document) {
	t.Helper()
	const cnitool = "CNI_PATH=/opt/cni/bin NETCONFPATH=/etc/cni/net.d cnitool "
	page.follow(t, n, "What the host needs", map[string]step{"grep . /sys/bus/pci/devices/*/sriov_totalvfs": {prints: []string{`:7\n.*:7`}}})
	followSentences(t, n, map[string]step{
		"./culvert host install": {before: "ln -s /opt/cni/bin/cnitool /usr/local/bin; cd /root/culvert", prints: []string{`(?m)^ *\+ /usr/local/bin/culvertd`}},
	})
	page.follow(t, n, "Declaring VFs and pools", map[string]step{
		"culvert host validate":           {before: "rm -r /root/culvert; cp host.yaml /etc/culvert"},
		"systemctl enable --now culvertd": {},
		"culvert status":                  {before: awaitHealth, prints: []string{`fast .* 8 free`, `vms .* 3 free`, "Nothing is wrong"}},
	})
	page.follow(t, n, "A network for containers", map[string]step{
		cnitool + "add storage /run/netns/try": {prints: []string{`172\.16\.91\.\d+/24`}},
		"ip -n try address":                    {prints: []string{`inet 172\.16\.91\.\d+/24`}},
		"culvert vf list":                      {prints: []string{`attached +.*storage +172\.16\.91\.`}},
	})
}

// operate runs the commands of the pages for administrators. A container that has a VF goes without a
// DEL meanwhile.
func operate(t *testing.T, n node.Node, operations, trouble document) {
	t.Helper()
	operations.follow(t, n, "Looking", map[string]step{
		"culvert vf top":         {prints: []string{"RECEIVES|No VF"}},
		"journalctl -u culvertd": {prints: []string{"level=INFO"}},
	}, "culvert vf rebase", "culvert events -f", "culvert vf watch")
	operations.follow(t, n, "Changing the wanted state", map[string]step{
		"culvert host plan new.yaml":                {prints: []string{"enp1s0", "sriov_numvfs"}},
		"culvert host apply new.yaml":               {prints: []string{"Applied"}},
		"culvert host apply --confirm 60s new.yaml": {before: "culvert host apply host.yaml", prints: []string{`is on trial: \d+ s left`}},
		"culvert host confirm":                      {prints: []string{"stays"}},
		"culvert host revert":                       {before: "culvert host apply --confirm 60s host.yaml", prints: []string{"before the trial is in force again"}},
	})
	operations.follow(t, n, "Restarting and upgrading", nil, "make build")
	trouble.follow(t, n, "A VF is quarantined", map[string]step{
		"culvert events":                      {prints: []string{"Attached"}},
		"culvert vf list --phase quarantined": {prints: []string{"No VFs"}},
	}, "sudo culvert vf rebase")
	followSentences(t, n, map[string]step{"systemctl status culvertd": {prints: []string{`active \(running\)`}}})

	forget := runStep(t, n, "culvert vf show $(culvert vf list | awk '/ attached / {print $1}') -o yaml",
		step{before: "CNI_PATH=/opt/cni/bin NETCONFPATH=/etc/cni/net.d cnitool add storage /run/netns/try >/dev/null"})
	for _, name := range []struct{ page, key string }{{"enp1s0f0#3", "- name"}, {"UID", "    uid"}, {"INTERFACE", "    interface"}} {
		m := regexp.MustCompile("(?m)^" + name.key + ": (\\S+)$").FindStringSubmatch(forget)
		if m == nil {
			t.Fatalf("the owner has no%s:\n%s", name.key, forget)
		}
		trouble.own = append([]string{name.page, m[1]}, trouble.own...)
	}
	trouble.follow(t, n, "Nothing is free", nil)
	if list := runStep(t, n, "culvert vf list", step{}); strings.Contains(list, " attached ") {
		t.Errorf("the DEL by hand gives no VF back:\n%s", list)
	}
}

// aptGet stands for apt on a node, which has dpkg but cannot reach an archive.
const aptGet = `apt-get() { dpkg "--$1" "${@:2}"; }
`

// make rpm builds the packages of make deb for RPM distributions. tools/packages.TestRPM installs
// one by rpm.
func TestRPM(t *testing.T) {
	dir := t.TempDir()
	run(t, "rpm", "DEB=-out "+dir)
	if made, err := filepath.Glob(dir + "/culvert*-1.*.rpm"); err != nil || len(made) != 4 {
		t.Errorf("make rpm makes %v, %v, want four packages", made, err)
	}
}

// The package of make deb can be installed and runs culvertd. After a purge nothing of it is
// left.
func TestDebianPackage(t *testing.T) {
	dir := t.TempDir()
	deb := Make(t.Context(), top, "deb", "DEB=-out "+dir)
	finish(t, deb)
	n := host(t, 2)
	if err := n.Lab.Copy(t.Context(), n.Name, dir, "/root/page/build/deb"); err != nil {
		t.Fatal(err)
	}
	followSentences(t, n, map[string]step{
		"apt-get install ./build/deb/culvert_*.deb": {before: aptGet + "rm -f /usr/sbin/policy-rc.d # it starts no service", prints: []string{"Setting up culvert"}},
		"apt-get purge culvert": {
			before: aptGet + "systemctl is-enabled culvertd; systemctl is-active culvertd; culvert status",
			prints: []string{"enabled\nactive\n", "Purging configuration files for culvert"},
		},
	})
	if left, err := n.Run(t.Context(), "ls", "-d", "/usr/bin/culvert", "/etc/culvert", "/var/lib/culvert"); err == nil || len(left) > 0 {
		t.Errorf("apt-get purge leaves %s", left)
	}
}
