package journal

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/culvert-net/culvert/internal/node/journal/pages"
)

// ErrChanged says that culvertd or another process has changed the ledger since Inspect read it.
var ErrChanged = errors.New("the ledger has changed since it was read: run the command again")

// lockRetry is how often lockFile tries to take a lock.
const lockRetry = 50 * time.Millisecond

// lockFile opens a ledger's file and takes the lock that bbolt takes when it writes a file (flock in
// its bolt_unix.go), so no culvertd opens the file. It also locks a file that bbolt refuses to open.
// The lock ends when the file is closed. The error is ErrBusy if another process has the file
// locked, or has replaced it meanwhile.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0) // NFS gives an exclusive lock only to a writer
	if err != nil {
		return nil, err
	}
	err = waitForLock(f)
	if err == nil {
		var there bool
		if there, err = isAt(path, f); err == nil && !there {
			err = ErrBusy
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// waitForLock locks a file, or returns ErrBusy if another process has it locked for lockBound.
func waitForLock(f *os.File) error {
	for end := time.Now().Add(lockBound); ; <-time.After(lockRetry) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		case time.Now().After(end):
			return ErrBusy
		}
	}
}

// digestFile returns the digest of a file. A block that the disk does not return counts as such: the
// file can be repaired nevertheless.
func digestFile(source pages.Source) (digest [sha256.Size]byte) {
	sum := sha256.New()
	b := make([]byte, 1<<15)
	for at := int64(0); at < source.Size(); at += int64(len(b)) {
		want := b[:min(int64(len(b)), source.Size()-at)]
		if n, err := source.ReadAt(want, at); n < len(want) {
			want = fmt.Appendf(nil, "block at %d: %v", at, err)
		}
		_, _ = sum.Write(want) // a hash takes everything
	}
	sum.Sum(digest[:0])
	return digest
}
