// Package uevent listens to the events of the kernel and udev about devices.
//
// Two multicast groups of NETLINK_KOBJECT_UEVENT carry them: the kernel announces a change at
// once (lib/kobject_uevent.c), and udevd repeats it when its rules, renaming included, are done
// (systemd, sd-device/device-monitor.c). Package kernel waits on them, so that nothing sleeps
// and polls.
package uevent

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Event is one change of one device.
type Event struct {
	Action    string // add, remove, change, move, bind, unbind
	Path      string // of the device, below /sys
	Subsystem string // net, pci, ...
	Interface string // netdevices: their name
	Index     int    // netdevices: their index; 0 for others
	FromUdev  bool   // udevd is done with it
}

// udevMagic is UDEV_MONITOR_MAGIC; the header before the properties is
// struct monitor_netlink_header: "libudev\0", magic (big endian), header size,
// offset and length of the properties (machine order), and filter hashes.
const (
	udevPrefix = "libudev\x00"
	udevMagic  = 0xfeedcafe
)

// Parse reads one datagram.
func Parse(b []byte) (Event, error) {
	if bytes.HasPrefix(b, []byte(udevPrefix)) {
		return parseUdev(b)
	}
	head, properties, ok := bytes.Cut(b, []byte{0})
	if !ok || !bytes.Contains(head, []byte("@")) {
		return Event{}, fmt.Errorf("uevent of %d bytes does not start with ACTION@PATH", len(b))
	}
	return parseProperties(properties), nil
}

func parseUdev(b []byte) (Event, error) {
	if len(b) < 24 || binary.BigEndian.Uint32(b[8:]) != udevMagic {
		return Event{}, errors.New("udev event without udev's magic number")
	}
	off, n := uint64(binary.NativeEndian.Uint32(b[16:])), uint64(binary.NativeEndian.Uint32(b[20:]))
	if off+n > uint64(len(b)) {
		return Event{}, fmt.Errorf("udev event of %d bytes has its properties at %d+%d", len(b), off, n)
	}
	e := parseProperties(b[off : off+n])
	e.FromUdev = true
	return e, nil
}

// parseProperties reads KEY=VALUE texts that end in zeros.
func parseProperties(b []byte) Event {
	var e Event
	for _, field := range strings.Split(string(b), "\x00") {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "ACTION":
			e.Action = value
		case "DEVPATH":
			e.Path = value
		case "SUBSYSTEM":
			e.Subsystem = value
		case "INTERFACE":
			if isName(value) {
				e.Interface = value
			}
		case "IFINDEX":
			index, _ := strconv.Atoi(value) // 0: no netdevice
			e.Index = max(index, 0)
		}
	}
	return e
}

// isName reports whether s can be a netdevice's name, which callers make paths
// of (dev_valid_name, net/core/dev.c).
func isName(s string) bool {
	return s != "" && s != "." && s != ".." && len(s) < unix.IFNAMSIZ && !strings.ContainsAny(s, "/: \t\n\v\f\r")
}

// ErrLost says that events came faster than they were read, and some are lost. The caller has
// to look for the changes itself.
var ErrLost = errors.New("device events were lost")

// Conn is a subscription to both groups.
type Conn struct {
	f   *os.File
	buf []byte
}

const (
	groupKernel = 1 << 0
	groupUdev   = 1 << 1
	receiveRoom = 1 << 20
)

// Listen subscribes in the netns of the calling thread. Subscribe before the
// change whose event is wanted.
func Listen() (*Conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("listen to device events: %w", err)
	}
	// Room for the events of 256 VFs at once; refused without CAP_NET_ADMIN.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveRoom)
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groupKernel | groupUdev}); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("listen to device events: %w", err)
	}
	return &Conn{f: os.NewFile(uintptr(fd), "uevents"), buf: make([]byte, 16<<10)}, nil
}

// Close ends the subscription.
func (c *Conn) Close() error { return c.f.Close() }

// Next waits for an event. It returns ErrLost when some were lost and ctx.Err() when ctx ends.
// Messages that do not parse are passed over: every process with CAP_NET_ADMIN in the netns may
// send to the groups, so an event wakes and proves nothing.
func (c *Conn) Next(ctx context.Context) (Event, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		n, err := c.f.Read(c.buf)
		switch {
		case ctx.Err() != nil:
			return Event{}, ctx.Err()
		case errors.Is(err, os.ErrDeadlineExceeded): // of an earlier call, whose ctx has ended
			_ = c.f.SetReadDeadline(time.Time{})
			if ctx.Err() != nil { // it may have ended before that
				return Event{}, ctx.Err()
			}
			continue
		case errors.Is(err, unix.ENOBUFS):
			return Event{}, ErrLost
		case err != nil:
			return Event{}, fmt.Errorf("receive device events: %w", err)
		}
		if e, err := Parse(c.buf[:n]); err == nil {
			return e, nil
		}
	}
}
