package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/culvert-net/culvert/internal/kernel/uevent"
)

// udevWait waits until udev has named a netdevice of the host's netns. Make it before the change,
// so that it misses no event.
type udevWait struct {
	k      *Kernel
	events *uevent.Conn
	done   map[int]string // netdevices that udev is done with: index to name
}

// awaitUdev begins to listen.
func (k *Kernel) awaitUdev() (*udevWait, error) {
	events, err := uevent.Listen()
	return &udevWait{k: k, events: events, done: map[int]string{}}, err
}

func (w *udevWait) closeEvents() { _ = w.events.Close() } // nothing was written to it

// awaitEvent waits for one event, of any kind. Lost events are no error: the caller looks again
// after each return.
func (w *udevWait) awaitEvent(ctx context.Context) error {
	e, err := w.events.Next(ctx)
	if errors.Is(err, uevent.ErrLost) {
		return nil
	}
	if e.FromUdev && e.Index != 0 {
		if e.Action == "remove" {
			delete(w.done, e.Index)
		} else {
			w.done[e.Index] = e.Interface
		}
	}
	return err
}

// awaitSettled waits until udev has processed the netdevice under the name that it
// has now: its rules rename, and the rename is an event of its own. A host
// without udev settles at once.
func (w *udevWait) awaitSettled(ctx context.Context, index int) error {
	if !fileExists(filepath.Join(w.k.run, "udev/control")) {
		return nil
	}
	record := filepath.Join(w.k.run, "udev/data/n"+strconv.Itoa(index))
	for {
		if isRecorded(record) {
			return nil
		}
		if name, ok := w.done[index]; ok && fileExists(filepath.Join(w.k.sys.root, "class/net", name)) {
			return nil
		}
		if err := w.awaitEvent(ctx); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("udev has not named netdevice %d: %w", index, waitError(ctx))
			}
			return err
		}
	}
}

// isRecorded reports whether udev is done with a netdevice, by its record. udev writes a record
// with ID_RENAMING before the rename, for programs that netlink informs of the link (systemd,
// rename_netif).
func isRecorded(path string) bool {
	record, err := os.ReadFile(path)
	return err == nil && !bytes.Contains(record, []byte("E:ID_RENAMING=1\n"))
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
