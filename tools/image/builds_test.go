package main

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/test/soak"
)

// TestSameBytesInAnyFolder builds the real image, for this machine's architecture, in this
// tree and in a copy, which is a git repository with a commit of its own. The build of the
// copy has another home, user, umask, time zone and locale, and flags for Go that would
// change the programs.
func TestSameBytesInAnyFolder(t *testing.T) {
	soak.Only(t, "every program compiled twice")
	top, other := "../..", filepath.Join(t.TempDir(), "a clone")
	copyTree(t, top, other) // so that go test caches the result only while these files are the same
	runIn(t, other, os.Environ(), "git", "init", "-q")
	runIn(t, other, os.Environ(), "git", "-c", "user.name=other", "-c", "user.email=other@example.org", "commit", "-q", "--allow-empty", "-m", "other")
	builder := filepath.Join(t.TempDir(), "image")
	runIn(t, top, goEnvironment(t), "tools/go", "build", "-o", builder, "./tools/image")

	here := buildWith(t, builder, top, "022", append(goEnvironment(t), "GOFLAGS=-buildvcs=auto"))
	there := buildWith(t, builder, other, "077", append(goEnvironment(t),
		"GOFLAGS=-buildvcs=true -tags=netgo,lab -ldflags=-compressdwarf=false", "GOAMD64=v3", "GOARM64=v8.2", "GOFIPS140=latest",
		"HOME="+t.TempDir(), "TMPDIR="+t.TempDir(), "USER=other", "LOGNAME=other", "TZ=Asia/Tokyo", "LC_ALL=tr_TR.UTF-8"))
	if !bytes.Equal(here, there) {
		t.Error("the archives of one tree, built in two folders, differ")
	}
	checkLicences(t, here)
}

// checkLicences checks that an image has the licences of what its programs link.
func checkLicences(t *testing.T, archive []byte) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "culvert.tar")
	if err := os.WriteFile(file, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	untar(t, file, dir)
	all := ""
	for _, blob := range globAll(t, filepath.Join(dir, "blobs/sha256/*")) {
		packed, err := os.Open(blob)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := gzip.NewReader(packed); err == nil {
			for name, body := range files(t, r) {
				if name == licencesFile {
					all = body
				}
			}
		}
		packed.Close()
	}
	for _, module := range []string{"std go1.", "k8s.io/client-go ", "go.etcd.io/bbolt ", "sigs.k8s.io/controller-runtime "} {
		if !strings.Contains(all, "\n"+module) {
			t.Errorf("the image has no licence of %s", module)
		}
	}
}

func globAll(t *testing.T, pattern string) []string {
	t.Helper()
	all, err := filepath.Glob(pattern)
	if err != nil || len(all) == 0 {
		t.Fatalf("%s: %v", pattern, err)
	}
	return all
}

// goEnvironment returns the environment of this process, with variables for the settings
// that Go would read from HOME.
func goEnvironment(t *testing.T) []string {
	t.Helper()
	env := append(os.Environ(), "CGO_ENABLED=0")
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB", "GOTOOLCHAIN"} {
		out, err := exec.CommandContext(t.Context(), "../go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, name+"="+strings.TrimSpace(string(out)))
	}
	return env
}

// buildWith runs builder, the program tools/image, in the tree dir, and returns the archive.
func buildWith(t *testing.T, builder, dir, umask string, env []string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "culvert.tar")
	runIn(t, dir, env, "sh", "-c", `umask "$1"; shift; exec "$@"`, "sh", umask,
		builder, "-arch", runtime.GOARCH, "-version", "v1.2.3", "-go", "any", "-out", file)
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func runIn(t *testing.T, dir string, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// copyTree copies a source tree without the folders of git and make.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case name == ".git" || name == "build":
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		return copyFile(path, target)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	body, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, body, info.Mode())
}
