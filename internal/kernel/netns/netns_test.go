package netns

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// made is a new network namespace.
func made(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pod")
	if err := New(path); errors.Is(err, unix.EPERM) {
		t.Skip("needs the right to make network namespaces")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Delete(path); err != nil {
			t.Error(err)
		}
	})
	return path
}

func current(t *testing.T) string {
	t.Helper()
	s, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRun(t *testing.T) {
	path := made(t)
	before := current(t)
	var inside string
	wrong := errors.New("wrong")
	if err := Run(path, func() error { inside = current(t); return wrong }); !errors.Is(err, wrong) {
		t.Errorf("Run returned %v", err)
	}
	if inside == before || inside == "" {
		t.Errorf("inside it is %s, outside %s", inside, before)
	}
	if got := current(t); got != before {
		t.Errorf("afterwards it is %s, before %s", got, before)
	}
	if err := New(path); !errors.Is(err, os.ErrExist) {
		t.Errorf("made twice: %v", err)
	}
}

func TestGone(t *testing.T) {
	path := made(t)
	nothing := func() error { t.Error("it ran"); return nil }
	file := filepath.Join(t.TempDir(), "file") // the file that stays after a namespace is unmounted
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{file, filepath.Join(file, "x"), "/nowhere/pod", "/proc/999999999/ns/net", "/proc/self/ns/mnt/x"} {
		if err := Run(p, nothing); !errors.Is(err, vf.ErrNetnsGone) {
			t.Errorf("%s: %v", p, err)
		}
	}
	for range 2 { // the second time there is nothing to delete
		if err := Delete(path); err != nil {
			t.Error(err)
		}
	}
	if err := Run(path, nothing); !errors.Is(err, vf.ErrNetnsGone) {
		t.Errorf("deleted: %v", err)
	}
}

// However many goroutines call Run, the main thread stays in the host's namespace.
func TestRunLeavesTheMainThread(t *testing.T) {
	path := made(t)
	self := func() string {
		s, err := os.Readlink("/proc/self/ns/net")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := self()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // makes goroutines meet the main thread
	var wg sync.WaitGroup
	for range 200 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := Run(path, func() error { runtime.Gosched(); return nil }); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	if got := self(); got != before {
		t.Errorf("the main thread is in %s now, before in %s", got, before)
	}
}

// CNI_NETNS comes from outside. Open refuses a file that is no network namespace, without opening
// it: opening a FIFO would hang.
func TestOpenLooksBeforeItOpens(t *testing.T) {
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := errors.Join(unix.Mkfifo(fifo, 0o600), os.Symlink(fifo, link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, link, dir, "/dev/null", "/proc/self/ns/mnt", "/proc/self/ns/user", "pod\x00"} {
		f, err := Open(path)
		if err == nil {
			_ = f.Close()
			t.Errorf("%q is open", path)
		}
	}
	f, err := Open("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
