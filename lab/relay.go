package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Relay makes target, an address and port in the lab's network namespace, reachable on a port of
// the host's loopback, which it returns, as long as the lab is up. A socket belongs to the
// namespace that it was made in, so Relay makes it on the host and passes it to the supervisor.
func (l *Lab) Relay(ctx context.Context, target string) (netip.AddrPort, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("relay to %s: %w", target, err)
	}
	defer listener.Close()
	f, err := listener.(*net.TCPListener).File()
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("relay to %s: %w", target, err)
	}
	defer f.Close()
	conn, _, err := l.paths.askWith(ctx, request{Op: "relay", Target: target}, f)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return listener.Addr().(*net.TCPAddr).AddrPort(), conn.Close()
}

// Route routes traffic of the programs beside the nodes for a prefix to a node.
func (l *Lab) Route(ctx context.Context, prefix netip.Prefix, node string) error {
	return l.sendRequest(ctx, request{Op: "route", Target: prefix.String(), Node: node})
}

// sendFile passes an open file over a unix socket: unix(7), SCM_RIGHTS.
func sendFile(conn net.Conn, f *os.File) error {
	_, _, err := conn.(*net.UnixConn).WriteMsgUnix([]byte{0}, unix.UnixRights(int(f.Fd())), nil)
	return err
}

// receiveFile receives a file from sendFile.
func receiveFile(conn net.Conn) (*os.File, error) {
	one, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(one, rights)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(errors.New("no file came with the request"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.Join(errors.New("want one file with the request"), err)
	}
	return os.NewFile(uintptr(fds[0]), "received"), nil
}

// relaySocket receives a socket over conn, and carries the connections to that socket to target.
func (s *supervisor) relaySocket(ctx context.Context, conn net.Conn, target string) error {
	f, err := receiveFile(conn)
	if err != nil {
		return fmt.Errorf("relay to %s: %w", target, err)
	}
	defer f.Close()
	listener, err := net.FileListener(f)
	if err != nil {
		return fmt.Errorf("relay to %s: %w", target, err)
	}
	s.life.Go(func() error {
		stop := context.AfterFunc(ctx, func() { listener.Close() })
		defer stop()
		for {
			near, err := listener.Accept()
			if err != nil {
				return nil // closed: the lab goes down
			}
			s.life.Go(func() error { carryStream(ctx, near, target); return nil })
		}
	})
	return nil
}

// carryStream copies both directions until both have ended.
func carryStream(ctx context.Context, near net.Conn, target string) {
	defer near.Close()
	far, err := new(net.Dialer).DialContext(ctx, "tcp", target)
	if err != nil {
		return // the client sees its connection closed
	}
	defer far.Close()
	stop := context.AfterFunc(ctx, func() { near.Close(); far.Close() })
	defer stop()
	var g errgroup.Group
	copyOne := func(to, from net.Conn) func() error {
		return func() error {
			_, err := io.Copy(to, from)
			return errors.Join(err, to.(*net.TCPConn).CloseWrite())
		}
	}
	g.Go(copyOne(far, near))
	g.Go(copyOne(near, far))
	_ = g.Wait() // it ends when both sides have ended, however they end
}

// addRoute sets a route in the calling process's network namespace.
func addRoute(prefix string, nodes []string, node string) error {
	to, err := netlink.ParseIPNet(prefix)
	if err != nil {
		return fmt.Errorf("route %s to %s: %w", prefix, node, err)
	}
	i := slices.Index(nodes, node)
	if i < 0 {
		return fmt.Errorf("route %s to %s: there is no such node", prefix, node)
	}
	if err := netlink.RouteReplace(&netlink.Route{Dst: to, Gw: nodeAddr(i + 1).AsSlice()}); err != nil {
		return fmt.Errorf("route %s to %s: %w", prefix, node, err)
	}
	return nil
}
