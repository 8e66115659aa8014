// Package socket serves gRPC services of Culvert to the node's kubelet, each on a socket of its own
// in the folder that the kubelet and its plugins use for theirs. It registers them with the running
// kubelet, and serves them anew when the kubelet starts again or has cleared the folder.
// intake/deviceplugin serves the resources of pods in this way.
package socket

import (
	"context"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/culvert-net/culvert/internal/change"
)

// Folder is the folder with the sockets of a kubelet and its plugins.
type Folder struct {
	Dir string
	// Watch wakes after each change in a folder, see kernel/dirwatch.
	Watch func(ctx context.Context, dir string) (<-chan struct{}, error)
	Log   *slog.Logger

	changed change.Signal
}

// Follow wakes the folder's services when something in it changes, until ctx ends. It makes the
// folder if it is not there yet, as the kubelet does.
func (f *Folder) Follow(ctx context.Context) {
	for ctx.Err() == nil {
		err := os.MkdirAll(f.Dir, 0o750)
		var wake <-chan struct{}
		if err == nil {
			wake, err = f.Watch(ctx, f.Dir)
		}
		if err != nil {
			f.Log.Error("watch the kubelet's plugins", "dir", f.Dir, "err", err)
		} else {
			f.changed.Notify()
			for range wake {
				f.changed.Notify()
			}
		}
		select {
		case <-time.After(time.Second): // the folder is gone, or cannot be watched
		case <-ctx.Done():
		}
	}
}

// file distinguishes two files of one name: the file system may reuse an inode number at once.
type file struct {
	inode    uint64
	modified int64 // nanoseconds since 1970
}

func lookAt(path string) (file, error) {
	info, err := os.Stat(path)
	if err != nil {
		return file{}, err
	}
	f := file{modified: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		f.inode = st.Ino
	}
	return f, nil
}
