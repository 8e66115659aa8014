package promises

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A bareMachine has the programs that tools/bootstrap itself calls, and nothing more.
type bareMachine struct {
	freeKiB   int // of memory
	freeMB    int // of disk
	forced    bool
	goScript  string // the program go, if there is one
	installed string // the file that apt-get would write
	refused   string // the packages that apt-get installs from the backports alone
	seconds   int    // that apt-get takes
}

// bootstrap runs the script on the machine, and returns its output.
func (m *bareMachine) bootstrap(t *testing.T, args ...string) (string, error) {
	t.Helper()
	bin, tools := t.TempDir(), t.TempDir()
	for _, name := range []string{"bash", "dirname", "awk", "cat", "env", "wc"} {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(bin, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile(filepath.Join(top, "tools/bootstrap"))
	if err != nil {
		t.Fatal(err)
	}
	m.installed = filepath.Join(tools, "installed")
	for path, body := range map[string]string{
		// The script also looks where Debian has root's programs.
		filepath.Join(tools, "bootstrap"):  strings.NewReplacer("PATH=$PATH:/usr/sbin:/sbin", "PATH=$PATH", "/etc/os-release", filepath.Join(tools, "os-release")).Replace(string(script)),
		filepath.Join(tools, "os-release"): "ID=debian\nVERSION_ID=12\n",
		filepath.Join(tools, "go"):         "#!/bin/sh\nexit 1\n",
		filepath.Join(tools, "meminfo"):    fmt.Sprintf("MemTotal: 99999999 kB\nMemAvailable: %d kB\nSwapFree: 0 kB\n", m.freeKiB),
		filepath.Join(bin, "df"):           fmt.Sprintf("#!/bin/sh\necho Filesystem\necho x x x %d x x\n", m.freeMB),
		filepath.Join(bin, "id"):           "#!/bin/sh\necho 0\n",
		filepath.Join(bin, "apt-get"): "#!/bin/sh\n[ $1 != indextargets ] || { echo 'Packages|main|bookworm-backports|http://mirror.invalid'; exit; }\n" +
			"case \"$*\" in *' -t '*) ;; *\"${REFUSED:-nothing}\"*) exit 100 ;; esac\n" +
			": >>$SLEPT\ntries=0\nwhile [ $(wc -l <$SLEPT) -lt $SECONDS_LONG ] && [ $((tries += 1)) -lt 500 ]; do :; done\necho \"$@\" >>" + m.installed + "\n",
		filepath.Join(bin, "sleep"): map[bool]string{true: "#!/bin/sh\necho >>$SLEPT\n"}[m.seconds > 0],
		filepath.Join(bin, "go"):    m.goScript,
	} {
		if body == "" {
			continue
		}
		if err := os.WriteFile(path, []byte(body), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "bash"), append([]string{filepath.Join(tools, "bootstrap")}, args...)...)
	cmd.Env = []string{"PATH=" + bin, "HOME=" + t.TempDir(), "MEMINFO=" + filepath.Join(tools, "meminfo"), "REFUSED=" + m.refused,
		fmt.Sprint("SECONDS_LONG=", m.seconds), "SLEPT=" + filepath.Join(tools, "slept")}
	if m.forced {
		cmd.Env = append(cmd.Env, "FORCE=1")
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Each target asks for the packages that it needs, and for no others.
func TestBootstrapAsksForWhatATargetNeeds(t *testing.T) {
	build, cgo, traffic := []string{"git", "golang-go", "make"}, []string{"gcc"}, []string{"busybox", "iperf", "iperf3", "iputils-ping"}
	lab := []string{"e2fsprogs", "mmdebstrap", "mount", "qemu-system-x86", "qemu-utils", "xz-utils"}
	test, pages := []string{"libvirt-clients", "libxml2-utils", "nftables", "python3"}, []string{"chromium"}
	all := slices.Concat(build, cgo, traffic, lab, test, pages)
	roomy := bareMachine{freeKiB: 1 << 26, freeMB: 1 << 20}
	for target, want := range map[string][]string{
		"build": build, "lint": build, "test-lint": build, "fuzz": build, "vuln": build, "image": build, "deb": build,
		"check": slices.Concat(build, cgo),
		"demo":  slices.Concat(build, lab), "demo-vm": slices.Concat(build, lab), "lab": slices.Concat(build, lab), "bench-lab": slices.Concat(build, lab),
		"demo-k8s":  slices.Concat(build, cgo, lab),
		"bench":     slices.Concat(build, cgo, lab, traffic),
		"test-unit": slices.Concat(build, cgo, traffic, test, pages),
		"test-lab":  slices.Concat(build, cgo, lab, traffic, test), "test-kubernetes": slices.Concat(build, cgo, lab, traffic, test),
		"test": all, "soak": all,
	} {
		out, err := roomy.bootstrap(t, "-n", "-for", target)
		if err == nil {
			t.Errorf("%s: nothing is missing: %s", target, out)
		}
		var got []string
		for _, m := range regexp.MustCompile(`(?m)^  (\S+) `).FindAllStringSubmatch(out, -1) {
			if slices.Contains(all, m[1]) { // the script finds the others by their files, which this machine may have
				got = append(got, m[1])
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", target, diff)
		}
	}
}

// prerequisite matches a target of the Makefile whose needs tools/bootstrap has.
var prerequisite = regexp.MustCompile(`(?m)^[a-z0-9 -]+:.*\bbootstrap-([a-z0-9-]+)`)

func TestBootstrapKnowsTheMakefile(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(top, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	roomy := bareMachine{freeKiB: 1 << 26, freeMB: 1 << 20}
	found := prerequisite.FindAllStringSubmatch(string(makefile), -1)
	for _, m := range found {
		if strings.HasSuffix(m[1], "-") { // of the levels: TestBootstrapAsksForWhatATargetNeeds has their names
			continue
		}
		if out, _ := roomy.bootstrap(t, "-n", "-for", m[1]); strings.Contains(out, "there is no target") {
			t.Errorf("%s: %s", m[0], out)
		}
	}
	if len(found) < 14 {
		t.Errorf("the Makefile names %d targets: %q", len(found), found)
	}
	if out, err := roomy.bootstrap(t, "-for", "nosuch"); err == nil || !strings.Contains(out, `there is no target "nosuch"`) {
		t.Errorf("%v: %s", err, out)
	}
}

// A machine without the memory or the disk for a target hears so before anything is installed.
func TestBootstrapNamesWhatIsShort(t *testing.T) {
	for says, m := range map[string]bareMachine{
		"this machine has less than 3 GiB of memory: 2048 MiB are free. Nothing was installed.": {freeKiB: 2 << 20, freeMB: 1 << 20},
		"this machine has less than 6 GB of disk: 3000 MB are free for ":                        {freeKiB: 1 << 26, freeMB: 3000},
	} {
		out, err := m.bootstrap(t, "-for", "demo")
		if err == nil || !strings.Contains(out, says) || !strings.HasPrefix(out, "bootstrap: make demo needs 3 GiB of memory and 6 GB of disk; ") {
			t.Errorf("%v: %q is not in %s", err, says, out)
		}
		if said, err := os.ReadFile(m.installed); err == nil {
			t.Errorf("apt-get was called: %s", said)
		}
		m.forced = true
		if out, _ := m.bootstrap(t, "-n", "-for", "demo"); !strings.Contains(out, "going on with less than ") || !strings.Contains(out, "qemu-system-x86") {
			t.Errorf("with FORCE: %s", out)
		}
	}
}

// apt-get says nothing for a minute where it unpacks a large package on a busy machine.
func TestBootstrapShowsThatAptRuns(t *testing.T) {
	m := bareMachine{freeKiB: 1 << 26, freeMB: 1 << 20, seconds: 25}
	out, _ := m.bootstrap(t, "-for", "build")
	if want := "bootstrap: apt-get has been running for 10 s\nbootstrap: apt-get has been running for 20 s\n"; !strings.Contains(out, want) {
		t.Errorf("%q is not in %s", want, out)
	}
}

// On Debian 12 the libelf1 of the backports comes with QEMU. Stable's rpm cannot be installed beside it.
func TestBootstrapFollowsTheBackports(t *testing.T) {
	for refused, want := range map[string]string{"rpm": " -t bookworm-backports ", "nothing": " DPkg::Lock::Timeout=300 "} {
		m := bareMachine{freeKiB: 1 << 26, freeMB: 1 << 20, refused: refused}
		said, _ := m.bootstrap(t, "-for", "test-lab")
		calls, err := os.ReadFile(m.installed)
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		var installed []string
		for line := range strings.Lines(string(calls)) {
			if strings.Contains(line, " rpm ") {
				installed = append(installed, line)
			}
		}
		// git is the first of the packages.
		options, _, _ := strings.Cut(strings.Join(installed, ""), "git ")
		if len(installed) != 1 || !strings.HasSuffix(options, want) {
			t.Errorf("apt-get refuses %s: %q: %s", refused, installed, said)
		}
	}
}

// A Go that is there and cannot fetch the toolchain of go.mod is not "installed, and yet missing".
func TestBootstrapSaysWhyGoDoesNotCount(t *testing.T) {
	m := bareMachine{freeKiB: 1 << 26, freeMB: 1 << 20, goScript: "#!/bin/sh\n[ $1 != version ] || { echo go version go1.23.5 linux/amd64; exit; }\necho 'x509: unknown authority' >&2; exit 1\n"}
	out, err := m.bootstrap(t, "-for", "build")
	const want = "go version go1.23.5 linux/amd64 is there, and cannot fetch the Go that go.mod names: x509: unknown authority. Let it reach Go's module proxy"
	if err == nil || !strings.Contains(out, want) {
		t.Errorf("%v: %q is not in %s", err, want, out)
	}
}

// The README has the figures that the script prints.
func TestReadmeHasTheNeedsOfTargets(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(top, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	roomy := bareMachine{freeKiB: 1 << 26, freeMB: 1 << 20}
	rows := regexp.MustCompile("(?m)^\\| `make ([a-z0-9-]+)` \\|.*$").FindAllStringSubmatch(string(readme), -1)
	for _, row := range rows {
		out, _ := roomy.bootstrap(t, "-n", "-for", row[1])
		line, _, _ := strings.Cut(out, "\n")
		for _, figure := range regexp.MustCompile(`\d+ (GiB|GB|min)\b`).FindAllString(line, -1) {
			if !strings.Contains(row[0], " "+figure+" |") {
				t.Errorf("README.md: %q is not in the row of make %s: %s", figure, row[1], line)
			}
		}
		if later := regexp.MustCompile(`a later one (\d+)$`).FindStringSubmatch(line); len(later) > 0 && !strings.HasSuffix(row[0], " "+later[1]+" min |") {
			t.Errorf("README.md: make %s: %s", row[1], line)
		}
	}
	if len(rows) < 5 {
		t.Errorf("the README has %d rows of targets", len(rows))
	}
	screen, _, _ := strings.Cut(string(readme), "\n## Beside ")
	screen = strings.Join(strings.Fields(strings.ReplaceAll(screen, "`", "")), " ")
	out, _ := roomy.bootstrap(t, "-n", "-for", "demo")
	line, _, _ := strings.Cut(strings.TrimPrefix(out, "bootstrap: "), "\n")
	if !strings.Contains(screen, line+". ") {
		t.Errorf("README.md: %q is not on its first screen", line)
	}
}
