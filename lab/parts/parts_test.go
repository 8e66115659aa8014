package parts

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
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
