package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/test/promises"
	"github.com/culvert-net/culvert/test/releases"
	"github.com/culvert-net/culvert/test/soak"
)

var when = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func putText(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func shell(t *testing.T, dir, line string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@culvert.invalid", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@culvert.invalid")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// There is no release without an address for reports, notes, a database of vulnerabilities and
// committed sources.
func TestRefusals(t *testing.T) {
	top := t.TempDir()
	const address = "Address for reports: security@example.org\n"
	const changes = "# Changelog\n\n## [Unreleased]\n\n- later\n\n## [0.1.0] - 2026-11-30\n\n- first\n\n## [0.0.1]\n\n- old\n"
	putText(t, filepath.Join(top, "SECURITY.md"), address)
	putText(t, filepath.Join(top, "CHANGELOG.md"), changes)
	if out, err := shell(t, top, "git init -q && git add . && git commit -qm one"); err != nil {
		t.Fatal(err, out)
	}
	good := release{Top: top, Version: "v0.1.0", VulnDB: "none"}
	r := good
	notes, err := r.check(t.Context())
	if err != nil || string(notes) != "# Culvert v0.1.0\n\n- first\n" || len(r.commit) != 40 || r.when.IsZero() {
		t.Errorf("notes %q, commit %q of %v, %v", notes, r.commit, r.when, err)
	}
	for says, change := range map[string]func(r *release){
		"want one like v0.1.0":           func(r *release) { r.Version = "0123abc-dirty" },
		"no database of vulnerabilities": func(r *release) { r.VulnDB = "" },
		`no section "## [0.2.0]"`:        func(r *release) { r.Version = "v0.2.0" },
		"the sources are not committed":  func(*release) { putText(t, filepath.Join(top, "new.go"), "") },
		"SECURITY.md has no address": func(*release) {
			putText(t, filepath.Join(top, "SECURITY.md"), "Address for reports: **not set**. The\n")
		},
		"no such file or directory": func(r *release) { r.Top = t.TempDir() },
	} {
		r := good
		change(&r)
		if _, err := r.check(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %s", err, says)
		}
		putText(t, filepath.Join(top, "SECURITY.md"), address)
		os.Remove(filepath.Join(top, "new.go"))
	}
}

// A vulnerability ends the release, before anything is built. govulncheck gets the database that the
// publisher names (test/promises.TestVuln has the real one).
func TestVulnerabilityEndsTheRelease(t *testing.T) {
	r := release{Top: t.TempDir(), Version: "v0.1.0", VulnDB: "file:///srv/vulndb", Archs: []string{"amd64"}}
	putText(t, filepath.Join(r.Top, "tools/vuln"), "#!/bin/sh\nprintf %s \"$GOVULNDB\" >asked\nexit 3\n")
	if err := os.Chmod(filepath.Join(r.Top, "tools/vuln"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := r.makeFiles(t.Context(), nil)
	asked, readErr := os.ReadFile(filepath.Join(r.Top, "asked"))
	if err == nil || !strings.Contains(err.Error(), "tools/vuln") || readErr != nil || string(asked) != r.VulnDB {
		t.Errorf("%v; asked %q, %v", err, asked, readErr)
	}
}

// The tree itself has no address for reports, so it makes no release.
func TestThisTreeHasNoAddress(t *testing.T) {
	text, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	err = release{Top: "../.."}.checkSecurity()
	if unset := strings.Contains(string(text), "**not set**"); unset != (err != nil) {
		t.Errorf("SECURITY.md says that no address is set: %t, and a release is refused with: %v", unset, err)
	}
}

// A user verifies a release by the command of docs/install.md. It fails for a file that was changed
// and for another key.
func TestSignature(t *testing.T) {
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("no ssh-keygen here: tools/bootstrap -for test installs it")
	}
	command := pageCommand(t, "ssh-keygen -Y verify ")
	keys := t.TempDir()
	if out, err := shell(t, keys, "ssh-keygen -q -t ed25519 -N '' -C throw-away -f key; ssh-keygen -q -t ed25519 -N '' -f other"); err != nil {
		t.Fatal(err, out)
	}
	r := release{Version: "v0.1.0", Key: filepath.Join(keys, "key"), dir: t.TempDir(), when: when}
	putText(t, filepath.Join(r.dir, "culvert.yaml"), "kind: Pod\n")
	if err := r.writeProvenance(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.writeSums(t.Context()); err != nil {
		t.Fatal(err)
	}
	allow := func(key string) {
		if out, err := shell(t, r.dir, `echo "culvert $(cat `+filepath.Join(keys, key)+`.pub)" >allowed_signers`); err != nil {
			t.Fatal(err, out)
		}
	}
	allow("key")
	if out, err := shell(t, r.dir, command); err != nil || !strings.Contains(out, "Good \"file\" signature for culvert") || !strings.Contains(out, "provenance.json: OK") {
		t.Errorf("%v\n%s", err, out)
	}
	allow("other")
	if out, err := shell(t, r.dir, command); err == nil {
		t.Errorf("another key verifies: %s", out)
	}
	allow("key")
	putText(t, filepath.Join(r.dir, "culvert.yaml"), "kind: Job\n")
	if out, err := shell(t, r.dir, command); err == nil || !strings.Contains(out, "culvert.yaml: FAILED") {
		t.Errorf("a changed file verifies (%v): %s", err, out)
	}
}

// pageCommand returns the command of docs/install.md that begins with those words.
func pageCommand(t *testing.T, begin string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	all := promises.Commands(string(page))
	at := slices.IndexFunc(all, func(c string) bool { return strings.HasPrefix(c, begin) })
	if at < 0 {
		t.Fatalf("docs/install.md has no command %s", begin)
	}
	return all[at]
}

// filled returns a release whose programs are copies of this test.
func filled(t *testing.T) release {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := release{
		Top: "../..", Version: "v0.2.0", Image: "registry.example.org/culvert", URL: "https://example.org/v0.2.0/", Archs: []string{"amd64"}, Programs: []string{"culvert"},
		bin: t.TempDir(), dir: t.TempDir(), when: when, commit: "0123abc",
	}
	for _, file := range r.programsFor("amd64") {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(self, file); err != nil {
			t.Fatal(err)
		}
	}
	image, err := os.Create(filepath.Join(r.dir, "culvert-v0.2.0-image.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	const index = `{"manifests": [{"digest": "sha256:feed"}]}`
	w := tar.NewWriter(image)
	if err := w.WriteHeader(&tar.Header{Name: "index.json", Size: int64(len(index)), Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, index); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return r
}

// untar returns the files of a .tar.gz.
func untar(t *testing.T, file string) map[string]string {
	t.Helper()
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	all, in := map[string]string{}, tar.NewReader(z)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(when) || h.Uname != "root" {
			t.Errorf("%s is of %v and %s", h.Name, h.ModTime, h.Uname)
		}
		all[h.Name] = string(text)
	}
}

// The chart of a release has its version, and the image with its digest. It has the files that the
// chart of the tree links.
func TestChart(t *testing.T) {
	r := filled(t)
	if err := r.writeChart(t.Context()); err != nil {
		t.Fatal(err)
	}
	chart := untar(t, filepath.Join(r.dir, "culvert-0.2.0.tgz"))
	if text := chart["culvert/Chart.yaml"]; !strings.Contains(text, "\nversion: 0.2.0\nappVersion: v0.2.0\n") {
		t.Error(text)
	}
	for file, names := range map[string]string{"values.yaml": "\n  name: %s\n", "files/values.yaml": "\n  name: %s\n", "values.schema.json": `"default": "%s"`, "README.md": "| `image.name` | `\"%s\"` |"} {
		if text := chart["culvert/"+file]; !strings.Contains(text, fmt.Sprintf(names, "registry.example.org/culvert:v0.2.0@sha256:feed")) {
			t.Errorf("%s: %.600s", file, text)
		}
	}
	for _, name := range []string{"culvert/files/network-attachment-definitions.yaml", "culvert/templates/node.yaml"} {
		if chart[name] == "" {
			t.Errorf("the chart has no %s", name)
		}
	}
	r.Image = ""
	if reference, err := r.reference(); err != nil || reference != "localhost/culvert:v0.2.0" {
		t.Errorf("an image for import is %s (%v)", reference, err)
	}
}

// The archive has the programs and the licences, krew's manifest has its sum and the publisher's
// URL, and the list of modules names each with its licence.
func TestArchiveKrewAndModules(t *testing.T) {
	r := filled(t)
	for _, step := range []func() error{
		func() error { return r.packPrograms(t.Context()) }, func() error { return r.writeKrew(t.Context()) }, func() error { return r.writeSBOM(t.Context()) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	archive := untar(t, filepath.Join(r.dir, r.archiveName("amd64")))
	if n := len(archive); n != 3 || !strings.Contains(archive["culvert-v0.2.0-linux-amd64/LICENSES.linked"], "golang.org/x/mod") {
		t.Errorf("the archive has %d files", n)
	}
	sum, err := sumFile(filepath.Join(r.dir, r.archiveName("amd64")))
	if err != nil {
		t.Fatal(err)
	}
	krew, err := os.ReadFile(filepath.Join(r.dir, "krew.yaml"))
	for _, part := range []string{"sha256: " + sum, "uri: https://example.org/v0.2.0/culvert-v0.2.0-linux-amd64.tar.gz", "version: v0.2.0"} {
		if err != nil || !strings.Contains(string(krew), part) {
			t.Errorf("no %q (%v) in\n%s", part, err, krew)
		}
	}
	body, err := os.ReadFile(filepath.Join(r.dir, "culvert-v0.2.0.spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Packages []struct{ Name, LicenseDeclared string }
	}
	if err := json.Unmarshal(body, &list); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, p := range list.Packages {
		found[p.Name] = p.LicenseDeclared
	}
	if found["golang.org/x/mod"] != "BSD-3-Clause" || found["std"] != "BSD-3-Clause" || found[source] != "Apache-2.0" {
		t.Errorf("the list has %v", found)
	}
}

// TestSameRelease makes a whole release, for one architecture, of two copies of this tree in folders
// of different names. The releases have the same bytes, and all files that docs/release.md lists.
func TestSameRelease(t *testing.T) {
	soak.Only(t, "every program compiled twice, and packed")
	key, err := releases.MakeKey(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	one, other := sumsOfRelease(t, "one", key), sumsOfRelease(t, "the other", key)
	if diff := cmp.Diff(one, other); diff != "" {
		t.Errorf("two releases of one commit differ: -one +other:\n%s", diff)
	}
	page, err := os.ReadFile("../../docs/release.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range one {
		documented := strings.NewReplacer("v0.1.0", "VERSION", "0.1.0", "VERSION", runtime.GOARCH, "ARCH", "x86_64", "ARCH", "aarch64", "ARCH").Replace(name)
		if !strings.Contains(string(page), "`"+documented+"`") {
			t.Errorf("docs/release.md does not list %s", documented)
		}
	}
}

// sumsOfRelease makes a release in a folder of that name, and returns the sums of its files.
func sumsOfRelease(t *testing.T, folder, key string) map[string]string {
	t.Helper()
	made, err := releases.Make(t.Context(), releases.Options{
		Top: "../..", Dir: filepath.Join(t.TempDir(), folder), Key: key, Versions: []string{"v0.1.0"},
		Flags: "-url https://example.org/v0.1.0 -image registry.example.org/culvert",
	})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(made[0] + "/*")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no files", err)
	}
	sums := map[string]string{}
	for _, file := range files {
		if sums[filepath.Base(file)], err = sumFile(file); err != nil {
			t.Fatal(err)
		}
	}
	return sums
}
