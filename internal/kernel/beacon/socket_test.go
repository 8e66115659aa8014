package beacon

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// openTap makes a netdevice in the netns of the thread and brings it up. The netdevice receives the
// frames that a test writes to the file.
func openTap(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	tap := os.NewFile(uintptr(fd), "tap")
	kind, err := unix.NewIfreq(name)
	if err != nil {
		return tap, err
	}
	kind.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, kind); err != nil {
		return tap, err
	}
	control, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return tap, err
	}
	defer func() { _ = unix.Close(control) }()
	up, err := unix.NewIfreq(name)
	if err != nil {
		return tap, err
	}
	up.SetUint16(unix.IFF_UP)
	return tap, unix.IoctlIfreq(control, unix.SIOCSIFFLAGS, up)
}

// A Socket holds the frames of a round of as many stations as a Table remembers, also if the round
// comes late. More are dropped and reported, and the queue is empty afterwards.
func TestQueueHoldsARound(t *testing.T) {
	frame := append(append(append([]byte{}, group[:]...), 2, 0, 0, 0, 0, 1), 0x88, 0xb5)
	frame = append(frame, make([]byte, leastFrame-len(frame))...)
	var (
		g       errgroup.Group
		missing error // a right or a device that the test needs
	)
	g.Go(func() error {
		runtime.LockOSThread() // never unlocked: the thread is thrown away
		if missing = unix.Unshare(unix.CLONE_NEWNET); missing != nil {
			return nil
		}
		tap, err := openTap("tap0")
		if tap != nil {
			defer func() { _ = tap.Close() }()
		}
		if missing = err; missing != nil {
			return nil
		}
		s, err := Open("tap0")
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		if size, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF); size != queueSize || err != nil {
			t.Errorf("a queue of %d bytes, %v", size, err)
		}
		for _, tt := range []struct {
			sent, got int
			more      bool
		}{{queueFrames, queueFrames, false}, {20 * queueFrames, queueFrames, true}, {0, 0, false}, {1, 1, false}} {
			for range tt.sent {
				if _, err := tap.Write(frame); err != nil {
					return err
				}
			}
			if got, more, err := s.Receive(queueFrames); len(got) != tt.got || more != tt.more || err != nil {
				t.Errorf("%d frames: received %d, more %t, %v", tt.sent, len(got), more, err)
			}
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if missing != nil {
		t.Skipf("needs /dev/net/tun, CAP_SYS_ADMIN and CAP_NET_ADMIN: %v", missing)
	}
}
