package journal_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// mountDisk mounts a file system of some size; it needs root.
func mountDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("needs root to mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillDisk leaves room for some pages on a disk.
func fillDisk(t *testing.T, dir string, pages int) (filler string) {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	filler = filepath.Join(dir, "filler")
	if n := int(st.Bfree)*int(st.Bsize) - pages*4096; n > 0 {
		if err := os.WriteFile(filler, make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filler
}

// If the disk is full when Open makes the ledger, Open leaves no file behind, for any amount of
// free space.
func TestFullDiskAtFirstOpen(t *testing.T) {
	for pages := range 12 {
		dir := mountDisk(t, 1<<20)
		path := filepath.Join(dir, "ledger.db")
		filler := fillDisk(t, dir, pages)
		l, err := journal.Open(path, journal.Options{})
		if err != nil {
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
				t.Errorf("room for %d pages: %v", pages, err)
			}
			left, _ := filepath.Glob(path + "*")
			if len(left) > 0 {
				t.Errorf("room for %d pages: left behind: %v", pages, left)
			}
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			if l, err = journal.Open(path, journal.Options{}); err != nil {
				t.Fatal(err)
			}
		} else if pages == 0 {
			t.Error("a full disk was no error")
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// I6: a disk that fills up while culvertd runs makes each change fail as a whole, with
// the reason. The records stay, and the ledger works again when there is room.
func TestI6FullDiskWhileOpen(t *testing.T) {
	for pages := range 8 {
		dir := mountDisk(t, 4<<20)
		path := filepath.Join(dir, "ledger.db")
		l := openEntry(t, path)
		put := func(n int) error {
			r, a := attachment(n)
			r.ID, r.PCI = id(n), vf.PCIAddr{Bus: uint8(1 + n/32), Device: uint8(n % 32)}
			a.VF = r.ID
			return l.Update(func(tx *journal.Tx) error {
				return errors.Join(tx.Event(r.MakeEvent(journal.Normal, "Put", "")), tx.Put(r), tx.HoldAddress(a))
			})
		}
		filler := fillDisk(t, dir, pages)
		n, failures := 0, 0
		for failures < 5 && n < 2000 {
			err := put(n)
			switch {
			case err == nil:
				n++
				continue
			case !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "make room"):
				t.Fatalf("%d records: %v", n, err)
			}
			failures++
			checkCounts(t, l, n)
		}
		if failures == 0 {
			t.Fatal("the disk never was full")
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		for range 50 {
			if err := put(n); err != nil {
				t.Fatalf("with room again: %v", err)
			}
			n++
		}
		checkCounts(t, l, n)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if c, err := journal.Inspect(path); err != nil || len(c.Problems()) > 0 || len(c.Records) != n {
			t.Errorf("%d of %d records, %v %v", len(c.Records), n, c.Problems(), err)
		}
	}
}

func checkCounts(t *testing.T, l *journal.Ledger, want int) {
	t.Helper()
	err := l.View(func(tx *journal.Tx) error {
		c := tx.Content()
		if len(c.Records) != want || len(c.Addresses) != want {
			t.Errorf("%d records and %d addresses, want %d", len(c.Records), len(c.Addresses), want)
		}
		if events := len(tx.Events(0)); events != want {
			t.Errorf("%d events, want %d: one for each change that succeeded", events, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A file system that cannot be written is an error that says so.
func TestReadOnlyDisk(t *testing.T) {
	dir := mountDisk(t, 1<<20)
	path := filepath.Join(dir, "ledger.db")
	if err := openEntry(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, filepath.Join(dir, "another.db")} {
		if _, err := journal.Open(path, journal.Options{}); !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v", err)
		}
	}
	if c, err := journal.Inspect(path); err != nil || len(c.Problems()) > 0 {
		t.Errorf("it can be looked at all the same: %v %v", err, c.Problems())
	}
}

// A ledger that may not be read is an error, and stays.
func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := os.WriteFile(path, nil, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Open(path, journal.Options{}); !errors.Is(err, os.ErrPermission) {
		t.Errorf("got %v", err)
	}
}
