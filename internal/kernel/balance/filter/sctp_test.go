package filter

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/kernel/netns"
)

// TestSCTP: an association to a ClusterIP reaches the backend, and carries a message there and
// back.
func TestSCTP(t *testing.T) {
	pod := newPod(t)
	run(t, pod, "ip link set lo up", "ip addr add 172.16.91.1/32 dev lo", "ip addr add fd00::1/128 dev lo nodad",
		"ip route add 10.96.0.0/12 dev lo", "ip -6 route add fd96::/64 dev lo")
	b, err := Open()
	if err != nil {
		skipOutsideLab(t, err)
	}
	if err := b.Apply(balance.Table{Pods: []balance.Pod{pod}, Views: map[balance.ViewID]balance.View{1: view(0)}}); err != nil {
		skipOutsideLab(t, err)
	}
	for service, backend := range map[string]string{"10.96.0.1:80": "172.16.91.1:80", "[fd96::1]:80": "[fd00::1]:80"} {
		server := openSCTP(t, pod, backend)
		at := sockaddrOf(backend)
		if err := errors.Join(unix.Bind(server, at), unix.Listen(server, 8)); err != nil {
			t.Fatalf("listen at %s: %v", backend, err)
		}
		client := openSCTP(t, pod, service)
		if err := unix.Connect(client, sockaddrOf(service)); err != nil {
			t.Fatalf("%s: %v", service, err)
		}
		accepted, from, err := unix.Accept(server)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(accepted)
		if got := exchange(t, client, accepted) + exchange(t, accepted, client); got != "hellohello" {
			t.Errorf("%s: messages arrive as %q, from %v", service, got, from)
		}
	}
}

// limit bounds the calls of a socket.
const limit = 30 * time.Second

// run runs commands in a pod's network namespace.
func run(t *testing.T, p balance.Pod, lines ...string) {
	t.Helper()
	err := netns.Run(p.Netns, func() error {
		for _, line := range lines {
			args := strings.Fields(line)
			if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", line, err, out)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// openSCTP opens a socket in a pod, of the family of an address, whose calls end after the limit.
func openSCTP(t *testing.T, p balance.Pod, of string) (fd int) {
	t.Helper()
	family := unix.AF_INET6
	if netip.MustParseAddrPort(of).Addr().Is4() {
		family = unix.AF_INET
	}
	err := netns.Run(p.Netns, func() (err error) {
		fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_SCTP)
		return err
	})
	if err != nil {
		skipOutsideLab(t, fmt.Errorf("the kernel has no SCTP: %w", err))
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	most := unix.NsecToTimeval(limit.Nanoseconds())
	if err := errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &most), unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &most)); err != nil {
		t.Fatal(err)
	}
	return fd
}

func sockaddrOf(text string) unix.Sockaddr {
	at := netip.MustParseAddrPort(text)
	if at.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}
	}
	return &unix.SockaddrInet6{Addr: at.Addr().As16(), Port: int(at.Port())}
}

// exchange sends a message from one end of an association, and returns what the other end reads.
func exchange(t *testing.T, from, to int) string {
	t.Helper()
	if _, err := unix.Write(from, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64)
	n, err := unix.Read(to, b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}
