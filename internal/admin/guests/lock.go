package guests

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"syscall"

	"github.com/culvert-net/culvert/internal/vf"
)

// lockName is the file, in a directory of root's that every boot empties, in which commands lock
// guests.
const lockName = "culvert-guests.lock"

// setFileLock is F_OFD_SETLK of linux/fcntl.h: a lock that ends when its open file is closed.
const setFileLock = 37

// Lock keeps other commands of this host from changing a guest, named by its UUID, until unlock is
// called or the process ends, and also while a virsh runs that [Host.Do] has started. A Host locks
// one guest at a time. The error wraps vf.ErrHeld if another command has the lock.
func (h *Host) Lock(guest string) (unlock func(), err error) {
	f, err := lockGuest(h.locks, guest)
	if err != nil {
		return nil, err
	}
	h.locked.Store(f)
	return func() {
		h.locked.Store(nil)
		f.Close() // which ends the lock, unless a virsh has inherited the file
	}, nil
}

// lockGuest locks the byte of the file that belongs to the guest. So there is one file, which no
// command has to remove while another one opens it. The lock ends when the file is closed.
func lockGuest(dir, guest string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock guest %s: %w", guest, err)
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(guest)) // a hash takes everything
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: int64(sum.Sum64() >> 2), Len: 1}
	if err := syscall.FcntlFlock(f.Fd(), setFileLock, &lock); err != nil {
		f.Close()
		if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
			return nil, fmt.Errorf("guest %s: %w: another culvert vm attach, detach or migrate, or its virsh, is changing it: wait until that has ended, and ask again", guest, vf.ErrHeld)
		}
		return nil, fmt.Errorf("lock guest %s: %w", guest, err)
	}
	return f, nil
}
