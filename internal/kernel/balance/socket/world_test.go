package socket

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/kernel/balance/filter"
	"github.com/culvert-net/culvert/internal/kernel/netns"
)

// patience bounds the wait for an answer that must come.
const patience = 5 * time.Minute

// world is a cgroup that this process is in, a BPF file system, and network namespaces that
// have the addresses of backends on their loopback interface.
type world struct {
	t           testing.TB
	dir, cgroup string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("making network namespaces and loading eBPF needs root")
	}
	tmp := t.TempDir()
	w := &world{t: t, dir: filepath.Join(tmp, "bpf", "culvert"), cgroup: filepath.Join(tmp, "cgroup", fmt.Sprintf("culvert-test-%d", os.Getpid()))}
	for kind, at := range map[string]string{"bpf": filepath.Dir(w.dir), "cgroup2": filepath.Dir(w.cgroup)} {
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("culvert-test", at, kind, 0, ""); err != nil {
			skipOutsideLab(t, fmt.Errorf("mount a file system of type %s: %w", kind, err))
		}
		t.Cleanup(func() { w.check(unix.Unmount(at, unix.MNT_DETACH)) })
	}
	before := w.ownCgroup()
	w.check(os.Mkdir(w.cgroup, 0o700))
	w.join(w.cgroup)
	t.Cleanup(func() {
		w.join(filepath.Join(filepath.Dir(w.cgroup), before))
		w.removeCgroup(w.cgroup)
	})
	return w
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Error(err)
	}
}

// removeCgroup removes a cgroup that this process has left. A thread of the process that was ending
// meanwhile is in it until the kernel has reaped it.
func (w *world) removeCgroup(at string) {
	w.t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if err := os.Remove(at); !errors.Is(err, unix.EBUSY) || time.Now().After(until) {
			w.check(err)
			return
		}
	}
}

// ownCgroup returns where this process is in the hierarchy of version 2.
func (w *world) ownCgroup() string {
	text, err := os.ReadFile("/proc/self/cgroup")
	w.check(err)
	for _, line := range strings.Split(string(text), "\n") {
		if at, ok := strings.CutPrefix(line, "0::"); ok {
			return at
		}
	}
	return "/"
}

func (w *world) join(cgroup string) {
	w.check(os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o600))
}

// open opens a Balancer as culvertd does when it starts.
func (w *world) open() *Balancer {
	w.t.Helper()
	b, err := Open(w.dir, w.cgroup)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { w.check(b.Close()) })
	return b
}

// balancer has the methods that the tests need of both mechanisms.
type balancer interface {
	Apply(balance.Table) error
}

// byBoth runs a test of behavior by eBPF and by nftables.
func byBoth(t *testing.T, test func(*testing.T, *world, balancer)) {
	t.Run("eBPF", func(t *testing.T) { w := newWorld(t); test(t, w, w.open()) })
	t.Run("nftables", func(t *testing.T) {
		w := newWorld(t)
		b, err := filter.Open()
		if err != nil {
			skipOutsideLab(t, err)
		}
		test(t, w, balancerOr{b, t})
	})
}

// skipOutsideLab skips a test where the kernel lacks something. In a fast node of the lab, whose
// kernel has everything, the test fails instead.
func skipOutsideLab(t testing.TB, lacks error) {
	t.Helper()
	if os.Getenv("CULVERT_LAB_NODE") != "" {
		t.Fatal(lacks)
	}
	t.Skip(lacks)
}

// balancerOr skips a test where the kernel lacks a module of nftables.
type balancerOr struct {
	balancer
	t *testing.T
}

func (b balancerOr) Apply(table balance.Table) error {
	err := b.balancer.Apply(table)
	if errors.Is(err, unix.ENOENT) {
		skipOutsideLab(b.t, err)
	}
	return err
}

// pod makes a network namespace with addresses.
func (w *world) pod(id string, view balance.ViewID, addresses ...string) balance.Pod {
	w.t.Helper()
	p := balance.Pod{ID: id, Netns: filepath.Join(w.t.TempDir(), id), View: view}
	if err := netns.New(p.Netns); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { w.check(netns.Delete(p.Netns)) })
	w.in(p, func() error {
		for _, line := range append([]string{"ip link set lo up", "ip route add 10.96.0.0/12 dev lo", "ip -6 route add fd96::/64 dev lo"}, addresses...) {
			if strings.Contains(line, "/") && !strings.HasPrefix(line, "ip ") {
				line = "ip addr add " + line + " dev lo nodad" // at once: even on lo the kernel makes an IPv6 address usable a moment later
			}
			args := strings.Fields(line)
			if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", line, err, out)
			}
		}
		return awaitLocalRoutes(addresses)
	})
	return p
}

// awaitLocalRoutes waits until the kernel delivers packets to the IPv6 addresses of this network
// namespace. It makes their local routes a moment after the addresses, in its own time
// (addrconf_dad_work). Until then lo drops these packets, and a datagram is sent only once.
func awaitLocalRoutes(addresses []string) error {
	for _, a := range addresses {
		prefix, err := netip.ParsePrefix(a)
		if err != nil || prefix.Addr().Is4() {
			continue
		}
		for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			out, err := exec.Command("ip", "-6", "route", "get", prefix.Addr().String()).CombinedOutput()
			if strings.HasPrefix(string(out), "local ") {
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("address %s has no local route after %s: %w: %s", a, patience, err, out)
			}
		}
	}
	return nil
}

func (w *world) in(p balance.Pod, fn func() error) {
	w.t.Helper()
	if err := netns.Run(p.Netns, fn); err != nil {
		w.t.Fatal(err)
	}
}

// serve answers with its own address, over TCP and UDP.
func (w *world) serve(p balance.Pod, at string) {
	w.t.Helper()
	w.in(p, func() error {
		l, err := net.Listen("tcp", at)
		if err != nil {
			return err
		}
		w.t.Cleanup(func() { _ = l.Close() })
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				_, _ = c.Write([]byte(at))
				_ = c.Close()
			}
		}()
		u, err := net.ListenPacket("udp", at)
		if err != nil {
			return err
		}
		w.t.Cleanup(func() { _ = u.Close() })
		go func() {
			for b := make([]byte, 9); ; {
				_, from, err := u.ReadFrom(b)
				if err == nil {
					_, err = u.WriteTo([]byte(at), from)
				}
				if errors.Is(err, net.ErrClosed) {
					return
				}
				if err != nil {
					w.t.Errorf("the UDP backend at %s, asked by %v: %v", at, from, err)
					return
				}
			}
		}()
		return nil
	})
}

// call connects by TCP and returns who answered, and the address that the client sees.
func (w *world) call(p balance.Pod, to string) (who, peer string, err error) {
	w.t.Helper()
	w.in(p, func() error {
		var c net.Conn
		if c, err = (&net.Dialer{Timeout: patience}).Dial("tcp", to); err != nil {
			return nil
		}
		defer c.Close()
		b := make([]byte, 64)
		var n int
		_ = c.SetDeadline(time.Now().Add(patience))
		n, err = c.Read(b)
		who, peer = string(b[:n]), peerOf(c)
		return nil
	})
	return who, peer, err
}

// peerOf asks the kernel for the address of the other end (getpeername).
func peerOf(c net.Conn) string {
	f, err := c.(*net.TCPConn).File()
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	sa, err := unix.Getpeername(int(f.Fd()))
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)).String()
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port)).String()
	}
	return fmt.Sprint(err)
}

// send sends datagrams from one socket that is not connected, and returns who answered and
// the source addresses that the client sees.
func (w *world) send(p balance.Pod, to string, count int) (who, sources []string, err error) {
	w.t.Helper()
	w.in(p, func() error {
		var c net.PacketConn
		if c, err = net.ListenPacket("udp", ":0"); err != nil {
			return nil
		}
		defer c.Close()
		at := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to))
		for b := make([]byte, 64); count > 0; count-- {
			if _, err = c.WriteTo([]byte("x"), at); err != nil {
				return nil
			}
			_ = c.SetReadDeadline(time.Now().Add(patience))
			n, from, readErr := c.ReadFrom(b)
			if err = readErr; err != nil {
				return nil
			}
			who, sources = append(who, string(b[:n])), append(sources, from.String())
		}
		return nil
	})
	return who, sources, err
}

// datagram connects a UDP socket and returns who answers a datagram, or why none does.
func (w *world) datagram(p balance.Pod, to string) (who string, err error) {
	w.t.Helper()
	w.in(p, func() error {
		var c net.Conn
		if c, err = net.Dial("udp", to); err != nil {
			return nil
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err = c.Write([]byte("x")); err != nil {
			return nil
		}
		b := make([]byte, 64)
		var n int
		n, err = c.Read(b)
		who = string(b[:n])
		return nil
	})
	return who, err
}

func frontend(p balance.Protocol, at string) balance.Frontend {
	a := netip.MustParseAddrPort(at)
	return balance.Frontend{Addr: a.Addr(), Port: a.Port(), Protocol: p}
}

func ruleTo(at ...string) *balance.Rule {
	r := &balance.Rule{}
	for _, a := range at {
		r.Backends = append(r.Backends, netip.MustParseAddrPort(a))
	}
	return r
}

func isRefused(err error) bool { return errors.Is(err, unix.ECONNREFUSED) }

// packets is a UDP socket that is not connected.
type packets struct {
	w *world
	net.PacketConn
}

func (w *world) dialPacket(p balance.Pod) packets {
	w.t.Helper()
	s := packets{w: w}
	w.in(p, func() (err error) { s.PacketConn, err = net.ListenPacket("udp", ":0"); return err })
	w.t.Cleanup(func() { _ = s.Close() })
	return s
}

// ask sends a datagram and returns who answered.
func (s packets) ask(to string) string {
	s.w.t.Helper()
	if _, err := s.WriteTo([]byte("x"), net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to))); err != nil {
		s.w.t.Fatal(err)
	}
	b := make([]byte, 64)
	_ = s.SetReadDeadline(time.Now().Add(patience))
	n, _, err := s.ReadFrom(b)
	if err != nil {
		s.w.t.Fatal(err)
	}
	return string(b[:n])
}
