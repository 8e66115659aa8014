package socket

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/balance"
)

// FuzzParseSocket: a socket that parseSocket returns has an address, whatever the kernel's message
// contains.
func FuzzParseSocket(f *testing.F) {
	f.Add(make([]byte, diagMessage))
	f.Add([]byte{2, 1, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if s, ok := parseSocket(raw); ok && !s.peer.Addr().IsValid() {
			t.Fatalf("%+v", s)
		}
	})
}

// skipWithoutList skips a test where the kernel lists no UDP sockets.
func skipWithoutList(t *testing.T) {
	t.Helper()
	if _, err := listSockets(unix.AF_INET, 1, func(udpSocket) bool { return true }); err != nil {
		skipOutsideLab(t, fmt.Errorf("the kernel lists no UDP sockets (module udp_diag): %w", err))
	}
}

// connectMany opens UDP sockets that are connected to an address.
func (w *world) connectMany(p balance.Pod, count int, to string) {
	w.t.Helper()
	at := netip.MustParseAddrPort(to)
	w.in(p, func() error {
		for range count {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			w.t.Cleanup(func() { _ = unix.Close(fd) })
			if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestI7ManySockets: a pod opens as many connected UDP sockets as it likes. culvertd keeps in
// memory only the sockets that it will end, and only up to the limit.
func TestI7ManySockets(t *testing.T) {
	const many, mostKept = 3000, 64 << 10
	w := newWorld(t)
	p := w.pod("client", tenant, "172.16.91.1/32")
	skipWithoutList(t)
	w.connectMany(p, many, "172.16.91.1:53")
	var before, after runtime.MemStats
	seen := 0
	w.in(p, func() error {
		runtime.GC()
		runtime.ReadMemStats(&before)
		_, err := listSockets(unix.AF_INET, maxEnded, func(udpSocket) bool {
			if seen++; seen == many {
				runtime.GC()
				runtime.ReadMemStats(&after)
			}
			return false
		})
		return err
	})
	kept := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d sockets, %d KiB kept", seen, kept>>10)
	if seen != many || kept > mostKept {
		t.Errorf("%d sockets, for which culvertd keeps %d KiB; want %d sockets and %d KiB at most", seen, kept>>10, many, mostKept>>10)
	}
	w.in(p, func() error {
		some, err := listSockets(unix.AF_INET, 10, func(udpSocket) bool { return true })
		if len(some) != 10 {
			t.Errorf("listed are %d sockets, want the limit of 10", len(some))
		}
		return err
	})
}

// TestEndsInParts: Apply ends no more than maxEnded sockets of a pod, and the next Apply goes on.
// Pending is true until all are ended.
func TestEndsInParts(t *testing.T) {
	w := newWorld(t)
	skipWithoutList(t)
	p := w.pod("client", tenant, "172.16.91.1/32", "172.16.91.2/32")
	b := w.open()
	b.maxEnded, b.interval = 2, 0
	f := frontend(balance.UDP, "10.96.0.1:53")
	w.apply(b, tableOf(p, f, ruleTo("172.16.91.1:53")))
	w.connectMany(p, 5, "10.96.0.1:53")
	w.connectMany(p, 1, "172.16.91.1:53") // the pod chose the address itself
	for i, want := range []struct {
		left    int
		pending bool
	}{{4, true}, {2, true}, {1, false}} {
		w.apply(b, tableOf(p, f, ruleTo("172.16.91.2:53")))
		var left []socketID
		w.in(p, func() (err error) {
			left, err = listSockets(unix.AF_INET, maxEnded, func(udpSocket) bool { return true })
			return err
		})
		if len(left) != want.left || b.Pending() != want.pending {
			t.Errorf("Apply %d: left are %d sockets, pending: %t; want %d, %t", i+1, len(left), b.Pending(), want.left, want.pending)
		}
	}
}
