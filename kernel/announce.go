package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/kernel/neigh"
	"github.com/culvert-net/culvert/kernel/netns"
	"github.com/culvert-net/culvert/kernel/rtnl"
	"github.com/culvert-net/culvert/kernel/step"
	"github.com/culvert-net/culvert/vf"
)

// Each address is announced twice: a switch or a neighbour may drop one frame
// while the link comes up. The first time is after the answer to whoever
// attached, which is not to wait behind it for a processor.
const (
	announceAfter = 100 * time.Millisecond
	announceTimes = 2
	announcePause = 20 * time.Millisecond
)

// announcer has the sockets of Announce, all in the netns of the VF.
type announcer struct {
	conn    *rtnl.Conn
	watcher *rtnl.Watcher
	packets int // AF_PACKET; -1: not open
}

func (k *Kernel) announce(ctx context.Context, s step.Announce) error {
	if err := pause(ctx, announceAfter); err != nil {
		return err
	}
	a, err := openAnnouncer(k.netnsFile(s.Netns))
	defer a.close()
	if err != nil {
		return notFound(err)
	}
	l, err := k.findLink(a.conn, s.VF, s.Netns)
	if err != nil {
		return err
	}
	if l, err = awaitCarrier(ctx, a.conn, a.watcher, l.Index); err != nil {
		return err
	}
	for i := range announceTimes {
		if i > 0 {
			if err := pause(ctx, announcePause); err != nil {
				return err
			}
		}
		if err := a.send(l, s.Addresses); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

func openAnnouncer(path string) (*announcer, error) {
	a := &announcer{packets: -1}
	open := func() (err error) {
		if a.watcher, err = rtnl.Watch(); err != nil {
			return err
		}
		if a.conn, err = rtnl.Dial(); err != nil {
			return err
		}
		// Protocol 0: it sends and receives nothing.
		a.packets, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open a packet socket: %w", err)
		}
		return nil
	}
	if path == "" {
		return a, open()
	}
	return a, netns.Run(path, open)
}

func (a *announcer) close() {
	if a.watcher != nil {
		_ = a.watcher.Close()
	}
	if a.conn != nil {
		_ = a.conn.Close()
	}
	if a.packets >= 0 {
		_ = unix.Close(a.packets)
	}
}

func (a *announcer) send(l rtnl.Link, addrs []netip.Prefix) error {
	var errs []error
	for _, p := range addrs {
		frame := neigh.Frame(l.MAC, p.Addr())
		to := &unix.SockaddrLinklayer{Ifindex: l.Index, Halen: uint8(len(vf.MAC{}))}
		copy(to.Addr[:], frame[:len(vf.MAC{})])
		if err := unix.Sendto(a.packets, frame, 0, to); err != nil {
			errs = append(errs, fmt.Errorf("send for %s: %w", p.Addr(), err))
		}
	}
	return errors.Join(errs...)
}
