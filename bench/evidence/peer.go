package evidence

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Peer returns the address to which the kernel sends what is written to a connected UDP socket.
// getpeername(2) does not return it: eBPF programs of a cgroup that put a backend in the place of a
// Service make that call return the Service's address.
func Peer(conn *net.UDPConn) (netip.AddrPort, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, err
	}
	var stat unix.Stat_t
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.Fstat(int(fd), &stat) }); err != nil || failed != nil {
		return netip.AddrPort{}, fmt.Errorf("stat a socket: %w", errors.Join(err, failed))
	}
	proc, err := procfs.NewFS("/proc/thread-self") // whose net/ is of this thread's network namespace
	if err != nil {
		return netip.AddrPort{}, err
	}
	sockets, err := proc.NetUDP()
	if local, ok := conn.LocalAddr().(*net.UDPAddr); ok && local.IP.To4() == nil {
		sockets, err = proc.NetUDP6()
	}
	if err != nil {
		return netip.AddrPort{}, err
	}
	return findPeer(sockets, stat.Ino)
}

// findPeer finds the remote address of the socket with an inode.
func findPeer(sockets procfs.NetUDP, inode uint64) (netip.AddrPort, error) {
	for _, s := range sockets {
		if s.Inode == inode {
			address, ok := netip.AddrFromSlice(s.RemAddr)
			if !ok || s.RemPort > math.MaxUint16 {
				return netip.AddrPort{}, fmt.Errorf("remote address %s, port %d: no such address", s.RemAddr, s.RemPort)
			}
			return netip.AddrPortFrom(address.Unmap(), uint16(s.RemPort)), nil
		}
	}
	return netip.AddrPort{}, fmt.Errorf("no socket has inode %d", inode)
}
