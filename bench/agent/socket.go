package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"

	"github.com/prometheus/procfs"

	"github.com/culvert-net/culvert/bench/engine"
)

// socket is a TCP socket.
type socket struct {
	local, remote uint16 // ports
	state         uint64
}

// States of sockets (include/net/tcp_states.h).
const (
	established = 1
	listening   = 10
)

// countSockets counts this network namespace's TCP sockets that match. A kernel without IPv6 has none
// of the second kind.
func countSockets(match func(socket) bool) (int, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	four, err := proc.NetTCP()
	if err != nil {
		return 0, err
	}
	six, err := proc.NetTCP6()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	count := 0
	for _, s := range slices.Concat(four, six) {
		if match(socket{local: uint16(s.LocalPort), remote: uint16(s.RemPort), state: s.St}) {
			count++
		}
	}
	return count, nil
}

// freePort finds one of the ports of an address without a listener, for TCP and for UDP; 0
// among them is any. Another process may take it before it is used.
func freePort(ctx context.Context, address netip.Addr, of []uint16) (uint16, error) {
	const rounds = 10 // a port that is free for TCP may be another's for UDP
	var err error
	for range rounds {
		for _, port := range of {
			if port, err = tryPort(ctx, netip.AddrPortFrom(address, port)); err == nil {
				return port, nil
			}
		}
	}
	return 0, fmt.Errorf("find a free port on %s: %w", address, err)
}

func tryPort(ctx context.Context, at netip.AddrPort) (uint16, error) {
	var config net.ListenConfig
	tcp, err := config.Listen(ctx, "tcp", at.String())
	if err != nil {
		return 0, engine.NoPorts(err, at.Port())
	}
	defer tcp.Close()
	at = tcp.Addr().(*net.TCPAddr).AddrPort()
	udp, err := config.ListenPacket(ctx, "udp", at.String())
	if err != nil {
		return 0, err
	}
	return at.Port(), udp.Close()
}
