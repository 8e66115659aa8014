package socket

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/netns"
)

// cookieOf asks a socket in a network namespace (SO_NETNS_COOKIE, Linux 5.14). It is a Unix
// one, since culvertd's unit allows no IP.
func cookieOf(path string) (value uint64, err error) {
	err = netns.Run(path, func() error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open a socket: %w", err)
		}
		defer unix.Close(fd)
		value, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
		if err != nil {
			return fmt.Errorf("read the cookie of a network namespace: %w", err)
		}
		return nil
	})
	return value, err
}
