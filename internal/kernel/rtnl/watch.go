package rtnl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Watcher reports that links or addresses changed, and not how: events wake, listing decides.
type Watcher struct {
	f   *os.File
	buf [1]byte
}

const (
	groupLink     = 1 << (unix.RTNLGRP_LINK - 1)
	groupAddress6 = 1 << (unix.RTNLGRP_IPV6_IFADDR - 1)
)

// Watch subscribes to changes of links in the netns of the calling thread.
// Subscribe before looking, so that no change is missed.
func Watch() (*Watcher, error) { return subscribe(groupLink) }

// WatchAddresses subscribes to changes of links and of IPv6 addresses in the netns of the
// calling thread. The kernel also sends one when duplicate address detection has ended.
func WatchAddresses() (*Watcher, error) { return subscribe(groupLink | groupAddress6) }

func subscribe(groups uint32) (*Watcher, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("watch links: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("watch links: %w", err)
	}
	return &Watcher{f: os.NewFile(uintptr(fd), "link events")}, nil
}

// Close ends the subscription.
func (w *Watcher) Close() error { return w.f.Close() }

// Wait returns nil after a change, or when changes were lost because they came
// faster than they were read, and ctx.Err() when ctx ends.
func (w *Watcher) Wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = w.f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	_, err := w.f.Read(w.buf[:]) // the rest of the datagram is dropped by the kernel
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !errors.Is(err, unix.ENOBUFS):
		return fmt.Errorf("watch links: %w", err)
	}
	return nil
}
