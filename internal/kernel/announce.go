package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/neigh"
	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// Each address is announced twice: a switch or a neighbour may drop one frame while the link
// comes up. The first announcement waits until the attach has answered its caller, so that the
// two do not compete for a processor.
const (
	announceAfter = 100 * time.Millisecond
	announceTimes = 2
	announcePause = 20 * time.Millisecond
)

// announcer has the sockets of the step Announce, all in the VF's netns.
type announcer struct {
	conn    *rtnl.Conn
	watcher *rtnl.Watcher
	packets int // AF_PACKET; -1: not open
}

func (k *Kernel) announceAddresses(ctx context.Context, s step.Announce) error {
	if !s.AtOnce {
		if err := waitFor(ctx, announceAfter); err != nil {
			return err
		}
	}
	a, err := openAnnouncer(k.netnsFile(s.Netns))
	defer a.closeSockets()
	if err != nil {
		return notFound(err)
	}
	l, err := k.findDevice(a.conn, s.VF, s.Netns, s.Bond)
	if err != nil {
		return err
	}
	if l, err = awaitCarrier(ctx, a.conn, a.watcher, l.Index); err != nil {
		return err
	}
	for i := range announceTimes {
		if i > 0 {
			if err := waitFor(ctx, announcePause); err != nil {
				return err
			}
		}
		if err := a.sendFrames(l, s.Addresses); err != nil {
			return err
		}
	}
	return nil
}

// findDevice returns the netdevice of a VF in the netns of c, or a bond if its name is not empty.
func (k *Kernel) findDevice(c *rtnl.Conn, a vf.PCIAddr, path, bond string) (rtnl.Link, error) {
	if bond != "" {
		return findBond(c, bond, a)
	}
	return k.findLink(c, a, path)
}

func waitFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return waitError(ctx)
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
		// Protocol 0: the socket only sends.
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

func (a *announcer) closeSockets() {
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

func (a *announcer) sendFrames(l rtnl.Link, addrs []netip.Prefix) error {
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
