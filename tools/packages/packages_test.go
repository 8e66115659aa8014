package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/admin/install"
)

var when = time.Date(2026, 11, 22, 20, 0, 0, 0, time.UTC)

// culvert is a program that writes its arguments to a file.
const culvert = "#!/bin/sh\necho \"$@\" >>\"$DPKG_ROOT/called\"\n"

// needs skips the test if one of the programs is missing.
func needs(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("no %s here: tools/bootstrap -for test installs it", name)
		}
	}
}

// find returns the program nfpm. It builds it the first time.
var find = sync.OnceValues(func() (string, error) { return findNFPM(context.Background(), "../..") })

// describes returns a package with that name and version.
func describes(t *testing.T, name, version string) pkg {
	t.Helper()
	nfpm, err := find()
	if err != nil {
		t.Fatal(err)
	}
	return pkg{name: name, version: version, arch: "amd64", when: when, changes: []byte("# Changelog\n"), licences: []byte("licences\n"), nfpm: nfpm, squeeze: "zstd"}
}

// built packs the files of culvert host install, with programs that do nothing.
func built(t *testing.T, version string) string {
	t.Helper()
	return packed(t, version, "deb")
}

func packed(t *testing.T, version, format string) string {
	t.Helper()
	bin, stage := t.TempDir(), t.TempDir()
	for _, name := range []string{"culvert", "culvertd", "culvert-cni", "culvert-hook"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(culvert), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h := install.Host{Root: stage, Prefix: prefix, Parts: []install.Part{install.Programs}, Out: &bytes.Buffer{}}
	if err := h.Install(t.Context(), bin, nil); err != nil {
		t.Fatal(err)
	}
	p := describes(t, hostPackage, version)
	helps(t, bin, "culvert", "culvertd")
	if err := writeManuals(t.Context(), p, bin, filepath.Join(stage, prefix, "share/man")); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	file, err := p.packStage(t.Context(), stage, out, format)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(out); err != nil || len(left) != 1 {
		t.Errorf("beside the package is %v (%v)", left, err)
	}
	return file
}

// helps writes programs that print a help text like that of cobra.
func helps(t *testing.T, bin string, names ...string) {
	t.Helper()
	for _, name := range names {
		script := "#!/bin/sh\ncase $1 in\nvf) echo 'Shows VFs -x.' ;;\n*) printf 'A program.\\n\\nUsage:\\n  it [flags]\\n\\nAvailable Commands:\\n  help    Help\\n  vf      VFs\\n' ;;\nesac\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// builtProgram packs one program that does nothing.
func builtProgram(t *testing.T, name string) string {
	t.Helper()
	bin, stage := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, name), []byte(culvert), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := layOut(t.Context(), name, bin, stage); err != nil {
		t.Fatal(err)
	}
	p := describes(t, name, "1.2~3")
	helps(t, bin, name)
	if err := writeManuals(t.Context(), p, bin, filepath.Join(stage, prefix, "share/man")); err != nil {
		t.Fatal(err)
	}
	file, err := p.packStage(t.Context(), stage, t.TempDir(), "deb")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestSameSourcesSamePackage(t *testing.T) {
	needs(t, "dpkg-deb")
	first, err := os.ReadFile(built(t, "1"))
	if err != nil {
		t.Fatal(err)
	}
	old := syscall.Umask(0o077)
	file := built(t, "1")
	syscall.Umask(old)
	second, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("two packages of the same programs differ")
	}
}

// files returns the mode and the name of each file of a package. It checks that
// entries belong to root, have the fixed date, and that all users can enter the
// folders.
func files(t *testing.T, file string) []string {
	t.Helper()
	var all []string
	for line := range strings.Lines(output(t, "dpkg-deb", "--contents", file)) {
		f := strings.Fields(line)
		if f[1] != "root/root" || f[3] != "2026-11-22" {
			t.Errorf("an entry that is not root's, or of now: %s", line)
		}
		if !strings.HasSuffix(line, "/\n") {
			all = append(all, f[0]+" "+strings.Join(f[5:], " "))
		} else if f[0] != "drwxr-xr-x" {
			t.Errorf("a folder that not everybody can enter: %s", line)
		}
	}
	slices.Sort(all)
	return all
}

func TestContents(t *testing.T) {
	needs(t, "dpkg-deb")
	t.Setenv("TZ", "UTC")
	file := built(t, "1.2~3")
	want := []string{
		"-rw-r--r-- ./etc/culvert/host.yaml",
		"-rw-r--r-- ./usr/lib/systemd/system/culvert-metrics.service",
		"-rw-r--r-- ./usr/lib/systemd/system/culvert-metrics.timer",
		"-rw-r--r-- ./usr/lib/systemd/system/culvertd.service",
		"-rw-r--r-- ./usr/share/bash-completion/completions/culvert",
		"-rw-r--r-- ./usr/share/doc/culvert/LICENSES.linked.gz",
		"-rw-r--r-- ./usr/share/doc/culvert/NEWS.gz",
		"-rw-r--r-- ./usr/share/doc/culvert/changelog.gz",
		"-rw-r--r-- ./usr/share/doc/culvert/copyright",
		"-rw-r--r-- ./usr/share/fish/vendor_completions.d/culvert.fish",
		"-rw-r--r-- ./usr/share/lintian/overrides/culvert",
		"-rw-r--r-- ./usr/share/man/man1/culvert.1.gz",
		"-rw-r--r-- ./usr/share/man/man8/culvertd.8.gz",
		"-rw-r--r-- ./usr/share/zsh/vendor-completions/_culvert",
		"-rwxr-xr-x ./usr/bin/culvert",
		"-rwxr-xr-x ./usr/bin/culvertd",
		"-rwxr-xr-x ./usr/libexec/culvert/culvert-cni",
		"-rwxr-xr-x ./usr/libexec/culvert/culvert-hook",
		"lrwxrwxrwx ./usr/bin/kubectl-culvert -> culvert",
		"lrwxrwxrwx ./usr/bin/kubectl_complete-culvert -> culvert",
		"lrwxrwxrwx ./usr/share/man/man1/kubectl-culvert.1.gz -> culvert.1.gz",
		"lrwxrwxrwx ./usr/share/man/man1/kubectl_complete-culvert.1.gz -> culvert.1.gz",
	}
	if diff := cmp.Diff(want, files(t, file)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	fields := output(t, "dpkg-deb", "--field", file, "Package", "Version", "Architecture", "Depends")
	if fields != "Package: culvert\nVersion: 1.2~3\nArchitecture: amd64\nDepends: init-system-helpers (>= 1.54~)\n" {
		t.Error(fields)
	}
	meta := t.TempDir()
	output(t, "dpkg-deb", "--control", file, meta)
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		output(t, "sh", "-n", filepath.Join(meta, script))
	}
	root := t.TempDir()
	output(t, "dpkg-deb", "--extract", file, root)
	sums := exec.CommandContext(t.Context(), "md5sum", "--check", "--quiet", filepath.Join(meta, "md5sums"))
	sums.Dir = root
	if out, err := sums.CombinedOutput(); err != nil {
		t.Errorf("md5sums: %v\n%s", err, out)
	}
	unit, err := os.ReadFile(filepath.Join(root, "usr/lib/systemd/system/culvertd.service"))
	if err != nil || !strings.Contains(string(unit), "\nExecStart=/usr/bin/culvertd\n") {
		t.Errorf("the unit starts another program (%v)", err)
	}
}

// The packages of culvert-bench, culvert-esxi and culvert-lab have that one program and no
// other.
func TestProgramPackages(t *testing.T) {
	needs(t, "dpkg-deb")
	t.Setenv("TZ", "UTC")
	for name, fields := range map[string]string{
		"culvert-bench": "Package: culvert-bench\nVersion: 1.2~3\nArchitecture: amd64\n",
		"culvert-esxi":  "Package: culvert-esxi\nVersion: 1.2~3\nArchitecture: amd64\n",
		"culvert-lab":   "Package: culvert-lab\nVersion: 1.2~3\nArchitecture: amd64\nDepends: qemu-system-x86 (>= 1:10), qemu-utils, mmdebstrap, debian-archive-keyring, e2fsprogs, xz-utils, mount\n",
	} {
		file := builtProgram(t, name)
		doc := "-rw-r--r-- ./usr/share/doc/" + name + "/"
		want := []string{
			doc + "LICENSES.linked.gz", doc + "NEWS.gz", doc + "changelog.gz", doc + "copyright",
			"-rw-r--r-- ./usr/share/lintian/overrides/" + name, "-rw-r--r-- ./usr/share/man/man1/" + name + ".1.gz", "-rwxr-xr-x ./usr/bin/" + name,
		}
		if diff := cmp.Diff(want, files(t, file)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
		if got := output(t, "dpkg-deb", "--field", file, "Package", "Version", "Architecture", "Depends"); got != fields {
			t.Error(got)
		}
		meta := t.TempDir()
		output(t, "dpkg-deb", "--control", file, meta)
		if got, err := filepath.Glob(meta + "/*"); err != nil || len(got) != 3 { // nfpm always writes conffiles
			t.Errorf("%s: dpkg reads %v, %v", name, got, err)
		}
	}
}

// culvert-lab depends on the packages that tools/bootstrap installs for the
// lab.
func TestLabDepends(t *testing.T) {
	script, err := os.ReadFile("../bootstrap")
	if err != nil {
		t.Fatal(err)
	}
	description, err := texts.ReadFile("description/culvert-lab.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, set, found := strings.Cut(string(script), "\n\t\tlab)\n")
	set, _, _ = strings.Cut(set, ";;")
	_, depends, _ := strings.Cut(string(description), "depends: [")
	depends, _, _ = strings.Cut(depends, "]")
	for line := range strings.Lines(set) {
		words := strings.Fields(line)
		if len(words) > 1 && words[0] == "need" && !slices.ContainsFunc(strings.Split(depends, ", "), func(d string) bool { return strings.Fields(d)[0] == words[1] }) {
			t.Errorf("the package culvert-lab does not depend on %s: %s", words[1], depends)
		}
	}
	if !found || !strings.Contains(set, "need qemu-system-x86") {
		t.Errorf("the set lab of tools/bootstrap is %q", set)
	}
}

// libvirt returns a package that has a file of libvirt.
func libvirt(t *testing.T) string {
	t.Helper()
	stage, file := t.TempDir(), filepath.Join(t.TempDir(), "libvirt.deb")
	control := "Package: libvirt-daemon-system\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@culvert.invalid>\nDescription: a test\n"
	if err := errors.Join(putFile(filepath.Join(stage, "DEBIAN/control"), []byte(control), 0o644), putFile(filepath.Join(stage, "etc/libvirt/libvirtd.conf"), nil, 0o644), os.Chmod(stage, 0o755)); err != nil {
		t.Fatal(err)
	}
	output(t, "dpkg-deb", "--root-owner-group", "--build", stage, file)
	return file
}

// TestLife installs, upgrades, removes and purges the package in a root of its
// own, with dpkg's own scripts for services. It installs libvirt in between.
func TestLife(t *testing.T) {
	needs(t, "dpkg", "deb-systemd-helper")
	if os.Geteuid() != 0 {
		t.Skip("dpkg unpacks as root")
	}
	root := t.TempDir()
	for _, dir := range []string{"info", "updates", "triggers"} {
		if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const depends = "Package: init-system-helpers\nStatus: install ok installed\nVersion: 1.65\nArchitecture: all\nMaintainer: nobody <nobody@culvert.invalid>\nDescription: a test\n"
	for name, body := range map[string]string{"status": depends, "info/init-system-helpers.list": ""} {
		if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg", name), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dpkg := func(args ...string) {
		t.Helper()
		output(t, "dpkg", append([]string{"--root=" + root, "--log=" + filepath.Join(root, "log"), "--force-script-chrootless", "--force-architecture", "--force-bad-path"}, args...)...)
	}
	there := func(name string) bool {
		_, err := os.Lstat(filepath.Join(root, name))
		return err == nil
	}
	const (
		wanted = "etc/systemd/system/multi-user.target.wants/culvertd.service"
		config = "etc/culvert/host.yaml"
		ledger = "var/lib/culvert/ledger.db"
	)
	dpkg("--install", built(t, "1"))
	if !there(wanted) || !there(config) {
		t.Errorf("after the install: service enabled %t, host.yaml %t", there(wanted), there(config))
	}
	edited := []byte("pools: []\n")
	if err := os.WriteFile(filepath.Join(root, config), edited, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "var/lib/culvert"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, ledger), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dpkg("--install", libvirt(t))
	dpkg("--install", built(t, "2"))
	if got, err := os.ReadFile(filepath.Join(root, config)); err != nil || !bytes.Equal(got, edited) {
		t.Errorf("after the upgrade host.yaml is %q (%v)", got, err)
	}
	dpkg("--remove", "culvert")
	if there("usr/bin/culvert") || !there(config) || !there(ledger) {
		t.Errorf("after the removal: program %t, host.yaml %t, ledger %t", there("usr/bin/culvert"), there(config), there(ledger))
	}
	dpkg("--purge", "culvert")
	if there(wanted) || there("etc/culvert") || there("var/lib/culvert") {
		t.Errorf("after the purge: service enabled %t, host.yaml %t, ledger %t", there(wanted), there(config), there("var/lib/culvert"))
	}
	called, err := os.ReadFile(filepath.Join(root, "called"))
	if err != nil {
		t.Fatal(err)
	}
	place := " --root " + root + "/ --prefix /usr --parts cni,libvirt\n"
	want := strings.Repeat("host install"+place, 3) + "host uninstall" + place
	if diff := cmp.Diff(want, string(called)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestRPM reads the .rpm as rpm does, installs, upgrades and removes it in a root of its own,
// without its scripts, and checks that two builds are the same. No RPM distribution runs it.
func TestRPM(t *testing.T) {
	needs(t, "rpm")
	first, second := packed(t, "1.2~3", "rpm"), packed(t, "1.2~3", "rpm")
	a, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(second); err != nil || !bytes.Equal(a, b) {
		t.Errorf("two packages of the same programs differ (%v)", err)
	}
	if name := filepath.Base(first); name != "culvert-1.2~3-1.x86_64.rpm" {
		t.Error(name)
	}
	if got := output(t, "rpm", "--query", "--package", "--queryformat", "%{NAME} %{VERSION}-%{RELEASE} %{ARCH} %{LICENSE} %{BUILDHOST} %{PAYLOADCOMPRESSOR}", first); got != "culvert 1.2~3-1 x86_64 Apache-2.0 culvert.invalid zstd" {
		t.Error(got)
	}
	if got := output(t, "rpm", "--query", "--package", "--configfiles", first); got != "/etc/culvert/host.yaml\n" {
		t.Errorf("configuration files: %s", got)
	}
	scripts := output(t, "rpm", "--query", "--package", "--scripts", first)
	for _, part := range []string{"postinstall scriptlet", "preuninstall scriptlet", "postuninstall scriptlet", "disable --now culvert-metrics.timer culvertd.service"} {
		if !strings.Contains(scripts, part) {
			t.Errorf("no %s in\n%s", part, scripts)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("rpm unpacks as root")
	}
	root := t.TempDir()
	rpm := func(args ...string) {
		t.Helper()
		output(t, "rpm", append([]string{"--root", root, "--dbpath", "/var/lib/rpm", "--nodeps", "--noscripts"}, args...)...)
	}
	rpm("--install", "--ignorearch", first)
	config := filepath.Join(root, "etc/culvert/host.yaml")
	edited := []byte("pools: []\n")
	if err := os.WriteFile(config, edited, 0o644); err != nil {
		t.Fatal(err)
	}
	rpm("--upgrade", "--ignorearch", packed(t, "1.3", "rpm"))
	if got, err := os.ReadFile(config); err != nil || !bytes.Equal(got, edited) {
		t.Errorf("after the upgrade host.yaml is %q (%v)", got, err)
	}
	if target, err := os.Readlink(filepath.Join(root, "usr/bin/kubectl-culvert")); err != nil || target != "culvert" {
		t.Errorf("kubectl-culvert is a link to %q (%v)", target, err)
	}
	rpm("--erase", "culvert")
	for _, gone := range []string{"usr/bin/culvert", "usr/share/doc/culvert", "usr/libexec/culvert"} {
		if _, err := os.Lstat(filepath.Join(root, gone)); err == nil {
			t.Errorf("the removal leaves %s", gone)
		}
	}
}

// lintian finds no error in the packages, and no page or document that is missing or wrong. It does
// not read zstd, so these have another compression.
func TestLintian(t *testing.T) {
	needs(t, "lintian")
	for _, name := range []string{hostPackage, "culvert-bench"} {
		p := describes(t, name, "0.1.0")
		p.squeeze = "gzip"
		stage, bin := t.TempDir(), t.TempDir()
		helps(t, bin, "culvert", "culvertd", "culvert-bench")
		for _, program := range programsOf(name) {
			if err := putFile(filepath.Join(stage, prefix, "bin", program), []byte("#!/bin/sh\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := writeManuals(t.Context(), p, bin, filepath.Join(stage, prefix, "share/man")); err != nil {
			t.Fatal(err)
		}
		file, err := p.packStage(t.Context(), stage, t.TempDir(), "deb")
		if err != nil {
			t.Fatal(err)
		}
		out, _ := exec.CommandContext(t.Context(), "lintian", "--allow-root", file).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			// The programs of this test are scripts; the hook and the plugin are in /usr/libexec.
			if !strings.Contains(line, "culvert-hook") && !strings.Contains(line, "culvert-cni") && !strings.Contains(line, "statically-linked-binary") {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

// A build that fails leaves nothing under the name of the package, and nothing beside it.
func TestFailedBuildLeavesNothing(t *testing.T) {
	out, stage := t.TempDir(), t.TempDir()
	nfpm := filepath.Join(t.TempDir(), "nfpm")
	if err := os.WriteFile(nfpm, []byte("#!/bin/sh\nfor target; do :; done\necho half >\"$target\"\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := pkg{name: hostPackage, version: "1", arch: "amd64", when: when, nfpm: nfpm}
	if _, err := p.packStage(t.Context(), stage, out, "deb"); err == nil || !strings.Contains(err.Error(), "nfpm: exit status 1") {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// The manual has the help of each command, with the minus signs that man shows as they stand.
func TestManual(t *testing.T) {
	bin := t.TempDir()
	helps(t, bin, "culvert")
	page, err := manuals[hostPackage][0].format(t.Context(), bin, "VFs", pkg{version: "1", when: when})
	want := ".TH CULVERT 1 2026-11-22 \"Culvert 1\"\n.SH NAME\nculvert \\- VFs\n.SH DESCRIPTION\n.nf\nA program.\n.fi\n" +
		".SH USAGE\n.nf\n  it [flags]\n.fi\n.SH AVAILABLE COMMANDS\n.nf\n  help    Help\n  vf      VFs\n.fi\n" +
		".SH CULVERT VF\n.SS Description\n.nf\nShows VFs \\-x.\n.fi\n"
	if diff := cmp.Diff(want, string(page)); err != nil || diff != "" {
		t.Errorf("%v\n-want +got:\n%s", err, diff)
	}
}

// The help of a program in build/bin names the folder of the source tree. Manual pages do not.
func TestManualNamesNoFolder(t *testing.T) {
	bin, to := filepath.Join(t.TempDir(), "build/bin"), t.TempDir()
	if err := putFile(filepath.Join(bin, "culvert-lab"), []byte("#!/bin/sh\necho in $(dirname $0) and $PWD, at $HOME, of $USER\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeManuals(t.Context(), pkg{name: "culvert-lab", when: when}, bin, to); err != nil {
		t.Fatal(err)
	}
	page := output(t, "zcat", filepath.Join(to, "man1/culvert-lab.1.gz"))
	if strings.Contains(page, "build") || !strings.Contains(page, " and /, at /root, of\n") {
		t.Error(page)
	}
}

// TestVersions checks that dpkg orders the versions by their age.
func TestVersions(t *testing.T) {
	var last string
	for _, c := range []struct {
		describe string
		age      time.Duration
		want     string
	}{
		{"unknown", 3 * time.Hour, "0~20261122170000.unknown"},
		{"ffffffe", 2 * time.Hour, "0~20261122180000.ffffffe"},
		{"b6a86be", time.Hour, "0~20261122190000.b6a86be"},
		{"b6a86be-dirty", time.Hour, "0~20261122190000.b6a86be+dirty"},
		{"v0.1.0", 0, "0.1.0"},
		{"v0.1.0-9-gabcdef0", 0, "0.1.0+9.gabcdef0"},
		{"v0.1.0-10-g1234567", 0, "0.1.0+10.g1234567"},
		{"v0.1.0-10-g1234567-dirty", 0, "0.1.0+10.g1234567+dirty"},
		{"v0.2.0", 0, "0.2.0"},
	} {
		got := packageVersion(c.describe, when.Add(-c.age))
		if got != c.want {
			t.Errorf("%s is version %s, want %s", c.describe, got, c.want)
		}
		if _, err := exec.LookPath("dpkg"); err != nil {
			continue
		}
		output(t, "dpkg", "--validate-version", got)
		if last != "" {
			output(t, "dpkg", "--compare-versions", last, "lt", got)
		}
		last = got
	}
}

func TestChanged(t *testing.T) {
	if got, err := changeTime(t.Context(), "1795377600"); err != nil || !got.Equal(time.Unix(1795377600, 0)) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := changeTime(t.Context(), "today"); err == nil || !strings.Contains(err.Error(), `SOURCE_DATE_EPOCH "today": want seconds since 1970`) {
		t.Error(err)
	}
}
