package engine

import (
	"context"
	"fmt"
	"math"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// options are the options of every socket of one end.
type options struct {
	device  string // SO_BINDTODEVICE; empty: the routes decide
	window  int    // SO_SNDBUF and SO_RCVBUF, bytes; 0: the kernel's own
	sharing bool   // SO_REUSEPORT
	dscp    int    // of all packets; 0: the kernel's own
}

// setBeforeBind sets the options before the socket is bound or connects, so that a
// window is in the first segment (tcp(7)).
func (o options) setBeforeBind(_, _ string, c syscall.RawConn) error {
	return onFD(c, o.setOptions)
}

func (o options) setOptions(fd int) error {
	if o.device != "" {
		if err := unix.BindToDevice(fd, o.device); err != nil {
			return fmt.Errorf("bind to interface %s: %w", o.device, err)
		}
	}
	if o.sharing {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
			return fmt.Errorf("share a port: %w", err)
		}
	}
	if err := setDSCP(fd, o.dscp); err != nil || o.window == 0 {
		return err
	}
	for _, b := range []struct {
		option, force int
		name, sysctl  string
	}{{unix.SO_SNDBUF, unix.SO_SNDBUFFORCE, "SO_SNDBUF", "net.core.wmem_max"}, {unix.SO_RCVBUF, unix.SO_RCVBUFFORCE, "SO_RCVBUF", "net.core.rmem_max"}} {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, b.force, o.window) == nil && o.window <= math.MaxInt32/2 {
			continue // root is not held to the sysctl
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, b.option, o.window); err != nil {
			return fmt.Errorf("window %d: set %s: %w", o.window, b.name, err)
		}
		// The kernel doubles the requested size, for its own bookkeeping (socket(7)).
		if got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, b.option); err != nil || got/2 < o.window {
			return fmt.Errorf("window %d: the kernel gives a %s of %d bytes: ask for no more, or raise %s", o.window, b.name, got/2, b.sysctl)
		}
	}
	return nil
}

// setDSCP sets the upper six bits of a socket's IP_TOS or IPV6_TCLASS. The lower two belong to ECN.
func setDSCP(fd, dscp int) error {
	if dscp == 0 {
		return nil
	}
	level, option := unix.IPPROTO_IP, unix.IP_TOS
	if domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err == nil && domain == unix.AF_INET6 {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	}
	if err := unix.SetsockoptInt(fd, level, option, dscp<<2); err != nil {
		return fmt.Errorf("set DSCP %d: %w", dscp, err)
	}
	return nil
}

// onFD calls f with the connection's descriptor.
func onFD(c syscall.RawConn, f func(fd int) error) error {
	var err error
	if outer := c.Control(func(fd uintptr) { err = f(int(fd)) }); outer != nil {
		return outer
	}
	return err
}

// onConn calls onFD for a TCP or UDP connection.
func onConn(c net.Conn, f func(fd int) error) error {
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	return onFD(raw, f)
}

// closeAll closes the connections that are not nil.
func closeAll(conns []net.Conn) {
	for _, c := range conns {
		if c != nil {
			c.Close()
		}
	}
}

// closedBy closes conns when ctx ends, which ends calls that block on them. The caller calls the
// returned function when it no longer uses them.
func closedBy(ctx context.Context, conns []net.Conn) func() bool {
	return context.AfterFunc(ctx, func() { closeAll(conns) })
}
