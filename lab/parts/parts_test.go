package parts

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Other labs may read the cache while Copy copies a program out of it.
func TestCopyLeavesTheCacheAsItWas(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "bridge"), filepath.Join(t.TempDir(), "opt/cni/bin/bridge")
	if err := os.WriteFile(from, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	stat := func(path string) (s syscall.Stat_t) {
		t.Helper()
		if err := syscall.Stat(path, &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := stat(from)
	if err := Copy(from, to); err != nil {
		t.Fatal(err)
	}
	if after := stat(from); after.Ctim != before.Ctim || after.Nlink != 1 {
		t.Errorf("the cache's file had ctime %v and has %v, with %d names", before.Ctim, after.Ctim, after.Nlink)
	}
	if body, err := os.ReadFile(to); err != nil || string(body) != "#!/bin/sh\n" || stat(to).Mode&0o777 != 0o755 {
		t.Errorf("the copy is %q with mode %o: %v", body, stat(to).Mode&0o777, err)
	}
	if err := Copy(from, to); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second copy to the same place: %v, want that it exists", err)
	}
}

// A part that is in the cache is found while another command builds another version of it, which takes
// ten minutes for Kubernetes.
func TestFindWaitsForNoOtherVersion(t *testing.T) {
	const name = "prometheus-operator" // two files of a module
	quiet := func(string, ...any) {}
	want, err := Find(t.Context(), "../..", name, quiet)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(filepath.Join(filepath.Dir(want), name+".lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if got, err := Find(ctx, "../..", name, quiet); err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}
