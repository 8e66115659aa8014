package sources

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// HostFile follows a file that can be read and keeps the last one otherwise.
func TestHostFile(t *testing.T) {
	current := &Current{}
	sources := NewSet(current, func() []vf.PF { return nil }, func() []api.Problem { return nil })
	f := &HostFile{Path: filepath.Join(t.TempDir(), "etc", "host.yaml"), Sources: sources, Log: slog.New(slog.DiscardHandler)}
	expect := func(step string, pools int, problem string) {
		t.Helper()
		got := ""
		for _, p := range f.Problems() {
			got = p.Reason
		}
		if n := len(current.Spec().Pools); n != pools || problem == "" && got != "" || !strings.Contains(got, problem) {
			t.Errorf("%s: %d pools and problem %q, want %d and %q", step, n, got, pools, problem)
		}
	}
	if !current.Spec().Partial {
		t.Error("before the file is read, more may be wanted")
	}
	f.Read()
	expect("no file", 0, "is not there")
	if current.Spec().Partial {
		t.Error("without a file and a cluster, nothing is wanted")
	}
	f.Optional = true
	f.Read()
	expect("no file on a node of a cluster", 0, "")
	if err := f.Write([]byte("pools: [{name: a}]\n")); err != nil {
		t.Fatal(err)
	}
	expect("written", 1, "")
	if err := os.WriteFile(f.Path, []byte("pools: [{nam: a}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.Read()
	expect("a mistake", 1, "did you mean name?")
	if err := os.Remove(f.Path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(f.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := f.Write([]byte("pools: []\n")); err == nil || !strings.Contains(err.Error(), f.Path) {
		t.Errorf("a folder in its place: %v", err)
	}
	if left, err := fs.Glob(os.DirFS(filepath.Dir(f.Path)), "*"); len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	f.Read()
	expect("a folder in its place", 1, "is a directory")
	if err := errors.Join(os.Remove(f.Path), os.WriteFile(f.Path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	f.Read()
	expect("emptied", 0, "")
}

// A host.yaml that cannot be written is an error with its path, and the node stays as it is.
func TestHostFileThatCannotBeWritten(t *testing.T) {
	sources, current := newSet()
	sources.SetHost(hostPool("a"))
	sources.Merge()
	file := filepath.Join(t.TempDir(), "etc")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := &HostFile{Path: filepath.Join(file, "host.yaml"), Sources: sources, Log: slog.New(slog.DiscardHandler)}
	if err := f.Write([]byte("pools: [{name: b}]\n")); err == nil || !strings.HasPrefix(err.Error(), "write "+f.Path+": ") {
		t.Errorf("got %v", err)
	}
	if got := poolNames(current.Spec()); len(got) != 1 || got[0] != "x/a" {
		t.Errorf("pools %v, want x/a", got)
	}
}
