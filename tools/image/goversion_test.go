package main

import (
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// compiledHere returns a folder with one program: the binary of this test.
func compiledHere(t *testing.T) (dir string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "culvertd")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestProgramsOfAnotherGoAreRefused(t *testing.T) {
	dir := compiledHere(t)
	for wanted, refused := range map[string]bool{runtime.Version(): false, anyGo: false, "go1.24.99": true, "go1": true} {
		got, err := checkPrograms(dir, wanted)
		switch {
		case refused && (err == nil || !strings.Contains(err.Error(), "culvertd") || !strings.Contains(err.Error(), "GOTOOLCHAIN="+wanted)):
			t.Errorf("%s: error %v, want one that names the program and the next step", wanted, err)
		case !refused && (err != nil || got != runtime.Version()):
			t.Errorf("%s: version %q, error %v", wanted, got, err)
		}
	}
}

// TestAnotherGoBuildsNoImage: buildImage returns an error if tools/versions pins
// another Go version than the one that built it.
func TestAnotherGoBuildsNoImage(t *testing.T) {
	top := t.TempDir()
	if err := os.MkdirAll(filepath.Join(top, "tools"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(top, "tools/versions"), []byte("# comment\nIMAGE_GO=go1.2.3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(top)
	err := buildImage(t.Context(), options{Out: filepath.Join(top, "culvert.tar"), Archs: []string{runtime.GOARCH}})
	if err == nil || !strings.Contains(err.Error(), runtime.Version()) || !strings.Contains(err.Error(), "GOTOOLCHAIN=go1.2.3") {
		t.Errorf("error %v, want one with both versions and the next step", err)
	}
	if _, err := os.Stat(filepath.Join(top, "culvert.tar")); err == nil {
		t.Error("there is an archive")
	}
}

// TestPinnedGo: the pinned version can compile what go.mod asks for.
func TestPinnedGo(t *testing.T) {
	got, err := pinnedGo("../versions")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "../go", "list", "-m", "-f", "{{.GoVersion}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	least := "go" + strings.TrimSpace(string(out))
	if !version.IsValid(got) || version.Compare(got, least) < 0 {
		t.Errorf("IMAGE_GO=%s, want a version that is at least %s", got, least)
	}
}
