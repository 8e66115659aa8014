package apiserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/culvert-net/culvert/internal/kernel/netns"
	"github.com/culvert-net/culvert/test/child"
)

// RunKubeProxy runs kube-proxy for a node, in a network namespace of its own, and returns a function
// that lists the rules which kube-proxy has written there. It needs root. kube-proxy changes no
// setting of the host.
func (s *Server) RunKubeProxy(node string) (rules func() (string, error)) {
	s.t.Helper()
	path := newNetns(s.t)
	s.relay(path)
	enter := []string{"--net=" + path}
	s.run(exec.CommandContext(s.t.Context(), "nsenter", append(enter, Program(s.t, "kubernetes", "kube-proxy"), "--proxy-mode", "nftables",
		"--kubeconfig", s.AdminKubeconfig(), "--hostname-override", node,
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s")...))
	return func() (string, error) {
		out, err := exec.CommandContext(s.t.Context(), "nsenter", append(enter, "nft", "list", "ruleset")...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("nft list ruleset: %w: %s", err, out)
		}
		return string(out), err
	}
}

// newNetns returns the path of a network namespace in which loopback is up. It ends with the test.
func newNetns(t testing.TB) string {
	t.Helper()
	holder := exec.CommandContext(t.Context(), "sleep", "infinity")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := child.Start(holder); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Process.Kill(); _ = holder.Wait() })
	path := fmt.Sprintf("/proc/%d/ns/net", holder.Process.Pid)
	if out, err := exec.CommandContext(t.Context(), "nsenter", "--net="+path, "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// relay serves the API server at its address in a network namespace, too, until the test ends.
func (s *Server) relay(path string) {
	s.t.Helper()
	address := "127.0.0.1:" + s.port
	var l net.Listener
	err := netns.Run(path, func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	var g errgroup.Group
	g.Go(func() error {
		for {
			c, err := l.Accept()
			if err != nil {
				return nil //nolint:nilerr // the test ends
			}
			g.Go(func() error { return relayOne(s.t.Context(), c, address) })
		}
	})
	s.t.Cleanup(func() { _ = l.Close() })
}

// relayOne copies between a connection and an address until either ends.
func relayOne(ctx context.Context, c net.Conn, address string) error {
	defer c.Close()
	to, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err // the API server is away
	}
	defer to.Close()
	var g errgroup.Group
	g.Go(func() error {
		_, err := io.Copy(to, c)
		_ = to.(*net.TCPConn).CloseWrite() //nolint:forcetypeassert // of a TCP address
		return err
	})
	_, err = io.Copy(c, to)
	_ = c.Close()
	_ = g.Wait() // c is closed
	return err
}
