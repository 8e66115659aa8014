// Package netns enters, makes and removes network namespaces that are named
// by a path.
//
// Entering is always done on a thread of its own, which is thrown away
// afterwards: no goroutine of the program ever continues in the wrong
// namespace. Package kernel calls Run; tests, benchmarks and the demo make
// namespaces with New and Delete.
package netns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// nsfsMagic is NSFS_MAGIC (linux/magic.h).
const nsfsMagic = 0x6e736673

// Open opens the namespace at path; vf.ErrNetnsGone when there is none. It looks at a file of
// another kind without opening it: opening a FIFO hangs, and opening a device may do something.
func Open(path string) (*os.File, error) {
	seen, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOTDIR) {
		return nil, fmt.Errorf("%s: %w", path, vf.ErrNetnsGone)
	}
	if err != nil {
		return nil, fmt.Errorf("open network namespace: %w", &os.PathError{Op: "open", Path: path, Err: err})
	}
	defer unix.Close(seen)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(seen, &fs); err != nil || fs.Type != nsfsMagic {
		return nil, fmt.Errorf("%s: %w", path, vf.ErrNetnsGone)
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", seen), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open network namespace: %w", &os.PathError{Op: "open", Path: path, Err: err})
	}
	if kind, err := unix.IoctlRetInt(fd, unix.NS_GET_NSTYPE); err != nil || kind != unix.CLONE_NEWNET {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("%s: %w", path, vf.ErrNetnsGone)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Run calls fn in the namespace at path and returns its error. fn may block;
// goroutines it starts are not in the namespace. Sockets that fn opens stay
// in the namespace wherever they are used.
func Run(path string, fn func() error) error {
	f, err := Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return discardThread(func() error {
		if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", path, err)
		}
		return fn()
	})
}

// discardThread calls fn on a thread that ends with it.
//
// It must not be the main thread: Go cannot end that one and parks it instead,
// wherever it is. /proc/self/ns/net would show a foreign namespace from then
// on, and that namespace could never be freed (runtime.goexit0 on m0; the test
// TestRunLeavesTheMainThread).
func discardThread(fn func() error) error {
	done := make(chan error, 1)
	// The thread of a locked goroutine that ends without unlocking is
	// destroyed with it; errgroup offers no such end.
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			done <- discardThread(fn) // holds the main thread, so another one is taken
			runtime.UnlockOSThread()
			return
		}
		done <- fn()
	}()
	return <-done
}

// New makes a network namespace and binds it to path, as "ip netns add" does
// under /run/netns. The directory is made if need be. Only loopback is in it,
// and that is down.
func New(path string) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make network namespace: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return fmt.Errorf("make network namespace: %w", err)
	}
	_ = f.Close()
	defer func() {
		if err != nil {
			_ = os.Remove(path)
		}
	}()
	return discardThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make network namespace %s: %w", path, err)
		}
		if err := unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind network namespace to %s: %w", path, err)
		}
		return nil
	})
}

// Delete removes what New made; nil when there is nothing. The namespace
// itself lives on while a process or a socket is in it.
func Delete(path string) error {
	err := unix.Unmount(path, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove network namespace %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove network namespace: %w", err)
	}
	return nil
}
