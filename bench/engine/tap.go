package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/bench"
)

// packetSocket opens an AF_PACKET socket with a filter. It sees nothing until it is
// bound.
func packetSocket(filter []bpf.Instruction) (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open a packet socket: %w: run as root or give the program CAP_NET_RAW", err)
	}
	if err := attachFilter(fd, filter); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// attachFilter gives a socket a filter.
func attachFilter(fd int, filter []bpf.Instruction) error {
	assembled, err := bpf.Assemble(filter)
	if err != nil {
		return fmt.Errorf("assemble a socket filter: %w", err)
	}
	program := make([]unix.SockFilter, len(assembled))
	for i, a := range assembled {
		program[i] = unix.SockFilter{Code: a.Op, Jt: a.Jt, Jf: a.Jf, K: a.K}
	}
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	if err != nil {
		return fmt.Errorf("attach a socket filter: %w", err)
	}
	return nil
}

// bindPacket makes a packet socket see all frames, of one interface or, with 0, of all.
func bindPacket(fd, index int) error {
	all := uint16(unix.ETH_P_ALL)
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all<<8 | all>>8, Ifindex: index}); err != nil {
		return fmt.Errorf("bind a packet socket: %w", err)
	}
	return nil
}

// route has the interface and the addresses of frames to the other end.
type route struct {
	index int
	name  string
	mtu   int
	ether [etherLength]byte
	from  netip.Addr
	to    netip.AddrPort
}

// tap sees the frames that the kernel sends to the other end of a connection. They show the
// interface and the next hop's MAC that the kernel chose by its routes, neighbours, VLANs and
// bonds.
type tap struct {
	fd       int
	from, to netip.AddrPort
}

// tapFor opens a tap for a workload that needs one, and is nil for others. The caller
// closes it.
func tapFor(w bench.Workload, conn net.Conn) (*tap, error) {
	if w.Kind != bench.Packets {
		return nil, nil
	}
	t := &tap{from: addrPort(conn.LocalAddr()), to: addrPort(conn.RemoteAddr())}
	fd, err := packetSocket(outgoingTo(t.to))
	if err != nil {
		return nil, err
	}
	t.fd = fd
	// learnRoute reads until it has a frame of the connection, and checks in between whether ctx
	// has ended.
	often := unix.NsecToTimeval((50 * time.Millisecond).Nanoseconds())
	if err := errors.Join(bindPacket(fd, 0), unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &often)); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// close may be called again.
func (t *tap) close() {
	if t != nil && t.fd >= 0 {
		_ = unix.Close(t.fd) // it was only read
		t.fd = -1
	}
}

// addrPort returns the address and port of an end of a TCP connection.
func addrPort(a net.Addr) netip.AddrPort {
	at := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
}

// outgoingTo passes outgoing TCP to one port, so that the tap is not flooded.
func outgoingTo(to netip.AddrPort) []bpf.Instruction {
	const outgoing = unix.PACKET_OUTGOING
	if to.Addr().Is6() {
		return []bpf.Instruction{
			bpf.LoadExtension{Num: bpf.ExtType},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: outgoing, SkipTrue: 5},
			bpf.LoadAbsolute{Off: etherLength + 6, Size: 1},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: protocolTCP, SkipTrue: 3},
			bpf.LoadAbsolute{Off: etherLength + ipv6Length + 2, Size: 2},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(to.Port()), SkipTrue: 1},
			bpf.RetConstant{Val: 128},
			bpf.RetConstant{},
		}
	}
	return []bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: outgoing, SkipTrue: 6},
		bpf.LoadAbsolute{Off: etherLength + 9, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: protocolTCP, SkipTrue: 4},
		bpf.LoadMemShift{Off: etherLength},
		bpf.LoadIndirect{Off: etherLength + 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(to.Port()), SkipTrue: 1},
		bpf.RetConstant{Val: 128},
		bpf.RetConstant{},
	}
}

// learnRoute waits for a frame of the connection to go out.
func (t *tap) learnRoute(ctx context.Context) (route, error) {
	r := route{from: t.from.Addr(), to: t.to}
	b := make([]byte, 128)
	for begun := time.Now(); time.Since(begun) < patience && ctx.Err() == nil; {
		n, from, err := unix.Recvfrom(t.fd, b, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return r, fmt.Errorf("see how the kernel sends to %s: %w", t.to, err)
		}
		if at, ok := from.(*unix.SockaddrLinklayer); ok && isOf(b[:n], t.from, t.to) {
			copy(r.ether[:], b)
			i, err := net.InterfaceByIndex(at.Ifindex)
			if err != nil {
				return r, fmt.Errorf("the interface that leads to %s: %w", t.to, err)
			}
			r.index, r.name, r.mtu = i.Index, i.Name, i.MTU
			return r, nil
		}
	}
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	return r, fmt.Errorf("no Ethernet frame to %s was seen to go out: frames can be sent on interfaces that are Ethernet: use kind %q there", t.to, "datagram")
}

// isOf reports whether an Ethernet frame holds TCP from one address to another.
func isOf(b []byte, from, to netip.AddrPort) bool {
	if len(b) < etherLength+ipv4Length+4 {
		return false
	}
	kind, l3 := binary.BigEndian.Uint16(b[etherLength-2:]), b[etherLength:]
	var source, destination netip.Addr
	var l4 []byte
	switch {
	case kind == etherIPv4 && l3[9] == protocolTCP:
		source, destination = netip.AddrFrom4([4]byte(l3[12:])), netip.AddrFrom4([4]byte(l3[16:]))
		l4 = l3[min(len(l3), int(l3[0]&15)*4):]
	case kind == etherIPv6 && len(l3) >= ipv6Length && l3[6] == protocolTCP:
		source, destination = netip.AddrFrom16([16]byte(l3[8:])), netip.AddrFrom16([16]byte(l3[24:]))
		l4 = l3[ipv6Length:]
	}
	return len(l4) >= 4 && source == from.Addr() && destination == to.Addr() &&
		binary.BigEndian.Uint16(l4) == from.Port() && binary.BigEndian.Uint16(l4[2:]) == to.Port()
}
