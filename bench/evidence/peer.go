package evidence

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

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
	name := "udp"
	if local, ok := conn.LocalAddr().(*net.UDPAddr); ok && local.IP.To4() == nil {
		name = "udp6"
	}
	text, err := os.ReadFile("/proc/thread-self/net/" + name)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return parsePeer(string(text), stat.Ino)
}

// parsePeer finds the remote address of the socket with an inode in the text of /proc/net/udp or
// udp6 (proc_net_udp(5)): addresses are words of the host's byte order, in hexadecimal.
func parsePeer(text string, inode uint64) (netip.AddrPort, error) {
	const remote, number = 2, 9 // columns
	for line := range strings.Lines(text) {
		columns := strings.Fields(line)
		if len(columns) <= number || columns[number] != strconv.FormatUint(inode, 10) {
			continue
		}
		host, port, _ := strings.Cut(columns[remote], ":")
		b, err := hex.DecodeString(host)
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("remote address %q: %w", columns[remote], err)
		}
		for i := 0; i+4 <= len(b); i += 4 {
			binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
		}
		address, ok := netip.AddrFromSlice(b)
		p, err := strconv.ParseUint(port, 16, 16)
		if !ok || err != nil {
			return netip.AddrPort{}, fmt.Errorf("remote address %q: want hexadecimal ADDRESS:PORT", columns[remote])
		}
		return netip.AddrPortFrom(address.Unmap(), uint16(p)), nil
	}
	return netip.AddrPort{}, fmt.Errorf("no socket has inode %d", inode)
}
