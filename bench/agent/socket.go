package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/bench/engine"
)

// socket is a line of /proc/net/tcp or tcp6 (proc_pid_net(5)).
type socket struct {
	local, remote uint16 // ports
	state         uint8
}

// States of sockets (include/net/tcp_states.h).
const (
	established = 1
	listening   = 10
)

func parseSockets(text string) ([]socket, error) {
	var all []socket
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) > 0 && fields[0] == "sl" {
			continue
		}
		if len(fields) < 4 {
			return nil, fmt.Errorf("read the sockets: %q has fewer than four columns", line)
		}
		var s socket
		for i, to := range []*uint16{&s.local, &s.remote} {
			_, port, _ := strings.Cut(fields[1+i], ":")
			n, err := strconv.ParseUint(port, 16, 16)
			if err != nil {
				return nil, fmt.Errorf("read the sockets: address %q: %w", fields[1+i], err)
			}
			*to = uint16(n)
		}
		state, err := strconv.ParseUint(fields[3], 16, 8)
		if err != nil {
			return nil, fmt.Errorf("read the sockets: state: %w", err)
		}
		s.state = uint8(state)
		all = append(all, s)
	}
	return all, nil
}

// countSockets counts this network namespace's TCP sockets that match. A kernel without IPv6 has no
// second file.
func countSockets(match func(socket) bool) (int, error) {
	count := 0
	for _, file := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(filepath.Join("/proc/net", file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		all, err := parseSockets(string(text))
		if err != nil {
			return 0, err
		}
		for _, s := range all {
			if match(s) {
				count++
			}
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
