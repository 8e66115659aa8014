package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/culvert-net/culvert/kernel/uevent"
)

// udevWait waits until udev has named a netdevice of the host's netns. Made
// before the change, so that no event falls between.
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

func (w *udevWait) close() { _ = w.events.Close() } // nothing was written to it

// next waits for one event, of any kind. Lost ones are no error: whoever waits
// looks for itself after each return.
func (w *udevWait) next(ctx context.Context) error {
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

// settled waits until udev has processed the netdevice under the name that it
// has now: its rules rename, and the rename is an event of its own. A host
// without udev settles at once.
func (w *udevWait) settled(ctx context.Context, index int) error {
	if !exists(filepath.Join(w.k.run, "udev/control")) {
		return nil
	}
	record := filepath.Join(w.k.run, "udev/data/n"+strconv.Itoa(index))
	for {
		if recorded(record) {
			return nil
		}
		if name, ok := w.done[index]; ok && exists(filepath.Join(w.k.sys.root, "class/net", name)) {
			return nil
		}
		if err := w.next(ctx); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("udev has not named netdevice %d: %w", index, ended(ctx))
			}
			return err
		}
	}
}

// recorded reports whether udev is done with a netdevice, by its record. One
// that says ID_RENAMING was written before the rename, so that those who are
// told of the link by netlink find it (systemd, rename_netif).
func recorded(path string) bool {
	record, err := os.ReadFile(path)
	return err == nil && !bytes.Contains(record, []byte("E:ID_RENAMING=1\n"))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
