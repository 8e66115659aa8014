// Package dirwatch reports that an entry of a folder came, went or was renamed (inotify(7)).
// The caller looks for the entry itself.
package dirwatch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/change"
)

// events are the changes by which a socket or file appears in a folder or vanishes, and the end
// of the folder itself.
const events = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// Watch wakes after each change in a folder; wakes that were not received yet merge into one.
// Look once after Watch returns: it does not report earlier changes. The channel is closed when
// ctx ends, or when the folder itself is removed or renamed.
func Watch(ctx context.Context, dir string) (<-chan struct{}, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", dir, err)
	}
	f := os.NewFile(uintptr(fd), "inotify") // not blocking, so Close ends a Read
	if _, err := unix.InotifyAddWatch(fd, dir, events); err != nil {
		return nil, errors.Join(fmt.Errorf("watch %s: %w", dir, err), f.Close())
	}
	wake := change.NewWake()
	stop := context.AfterFunc(ctx, func() { _ = f.Close() })
	// This goroutine ends with ctx or the folder, and then closes the channel.
	go func() {
		defer close(wake)
		defer f.Close()
		defer stop()
		buf := make([]byte, 16<<10)
		for {
			n, err := f.Read(buf)
			if err != nil || isFolderGone(buf[:n]) {
				return
			}
			wake.Notify()
		}
	}()
	return wake, nil
}

// isFolderGone reports whether one of the events says that the folder is not there
// any more. An event is struct inotify_event: 16 bytes, its mask in bytes 4 to 8,
// the length of the name that follows in the last 4.
func isFolderGone(buf []byte) bool {
	for len(buf) >= unix.SizeofInotifyEvent {
		mask, length := nativeUint32(buf[4:8]), nativeUint32(buf[12:16])
		if mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_IGNORED) != 0 {
			return true
		}
		buf = buf[min(len(buf), unix.SizeofInotifyEvent+int(length)):]
	}
	return false
}

func nativeUint32(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }
