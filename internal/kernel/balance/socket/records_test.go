package socket

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/balance"
)

// flood opens UDP sockets one after the other. Each sends a datagram to an address.
func (w *world) flood(p balance.Pod, sockets int, to string) {
	w.t.Helper()
	at := netip.MustParseAddrPort(to)
	sa := &unix.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}
	w.in(p, func() error {
		for range sockets {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			if err := unix.Sendto(fd, []byte("x"), 0, sa); err != nil {
				return fmt.Errorf("datagram to %s: %w", to, err)
			}
			_ = unix.Close(fd)
		}
		return nil
	})
}

// services are ClusterIPs for clients with affinity. There are several, since a client that has lost
// its backend may get the same again by chance.
var services = []string{"10.96.0.1:80", "10.96.0.2:80", "10.96.0.3:80", "10.96.0.4:80", "10.96.0.5:80", "10.96.0.6:80"}

// wantBackend calls each of the services.
func (w *world) wantBackend(p balance.Pod, backend string) {
	w.t.Helper()
	for _, at := range services {
		if who, _, err := w.call(p, at); err != nil || who != backend {
			w.t.Errorf("pod %s is answered by %q, %v; want %s, by its affinity", p.ID, who, err, backend)
		}
	}
}

// sticky is a view with the services. Their rules have the backends and an affinity of three hours.
func sticky(backends ...string) balance.View {
	v := balance.View{}
	for _, at := range services {
		r := ruleTo(backends...)
		r.Affinity = 3 * time.Hour
		v[frontend(balance.TCP, at)] = r
	}
	return v
}

// dialUDP connects UDP sockets.
func (w *world) dialUDP(p balance.Pod, count int, to string) (all []*net.UDPConn) {
	w.t.Helper()
	w.in(p, func() error {
		for range count {
			c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to)))
			if err != nil {
				return err
			}
			w.t.Cleanup(func() { _ = c.Close() })
			all = append(all, c)
		}
		return nil
	})
	return all
}

// answerFrom sends a datagram over a connected socket, and returns the source address that the
// client sees in the answer.
func (w *world) answerFrom(c *net.UDPConn) string {
	w.t.Helper()
	if _, err := c.Write([]byte("x")); err != nil {
		w.t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
	_, from, err := c.ReadFromUDPAddrPort(make([]byte, 64))
	if err != nil {
		w.t.Fatal(err)
	}
	return from.String()
}

// TestI9SocketsOfAnotherPod: pod b opens far more UDP sockets than its own maps have room for, and
// more than one map of the whole node would have. Pod a keeps the backends of its affinity, and sees
// the answers to its connected sockets come from the ClusterIP.
func TestI9SocketsOfAnotherPod(t *testing.T) {
	sockets := 80_000
	if os.Getenv("CULVERT_LAB_NODE") != "" { // emulated: a socket takes long
		sockets = 5_000
	}
	w := newWorld(t)
	backends := []string{"172.16.91.1:80", "172.16.91.2:80", "172.16.91.3:80", "172.16.91.4:80"}
	addresses := []string{"172.16.91.1/32", "172.16.91.2/32", "172.16.91.3/32", "172.16.91.4/32"}
	a, b := w.pod("a", tenant, addresses...), w.pod("b", tenant, addresses...)
	for _, at := range backends {
		w.serve(a, at)
	}
	dns := frontend(balance.UDP, "10.96.0.1:53")
	balancer := w.open()
	apply := func(sticky balance.View) {
		sticky[dns] = ruleTo(backends...)
		w.apply(balancer, balance.Table{Pods: []balance.Pod{a, b}, Views: map[balance.ViewID]balance.View{tenant: sticky}})
	}
	apply(sticky(backends[0]))
	w.wantBackend(a, backends[0])
	apply(sticky(backends...))
	connected := w.dialUDP(a, 300, "10.96.0.1:53")

	start := time.Now()
	w.flood(b, sockets, "10.96.0.1:53")
	t.Logf("%d sockets of pod b in %v", sockets, time.Since(start))

	w.wantBackend(a, backends[0])
	for i, c := range connected {
		if from := w.answerFrom(c); from != "10.96.0.1:53" {
			t.Fatalf("socket %d of pod a sees an answer from %s, want the ClusterIP", i, from)
		}
	}
}

// limitRoom gives the sockets of each pod room for a number of records.
func limitRoom(t *testing.T, records uint32) {
	t.Helper()
	before := room
	t.Cleanup(func() { room = before })
	room[sockets] = records + spare
}

// TestFullRecords: a pod has more sockets than room for their records. It keeps the backends of its
// affinity, each socket keeps its backend, and new answers come from the ClusterIP.
func TestFullRecords(t *testing.T) {
	const places, many = 16, 40
	limitRoom(t, places)
	w := newWorld(t)
	p := w.pod("client", tenant, "172.16.91.1/32", "172.16.91.2/32", "172.16.91.3/32")
	backends := []string{"172.16.91.1:80", "172.16.91.2:80", "172.16.91.3:80"}
	for _, at := range backends {
		w.serve(p, at)
	}
	const dns = "10.96.0.1:53"
	b := w.open()
	for _, has := range [][]string{backends[:1], backends} {
		view := sticky(has...)
		view[frontend(balance.UDP, dns)] = ruleTo(backends...)
		w.apply(b, balance.Table{Pods: []balance.Pod{p}, Views: map[balance.ViewID]balance.View{tenant: view}})
		w.wantBackend(p, backends[0])
	}
	var all []packets
	var first []string
	for range many {
		s := w.dialPacket(p)
		all, first = append(all, s), append(first, s.ask(dns))
	}
	for i, s := range all {
		if who := s.ask(dns); who != first[i] {
			t.Errorf("socket %d moved from %s to %s", i, first[i], who)
		}
	}
	if _, sources, err := w.send(p, dns, 1); err != nil || sources[0] != dns {
		t.Errorf("the client sees answers from %v, %v", sources, err)
	}
	w.wantBackend(p, backends[0])
	if n := b.countRecords(t, p, sockets); n != places {
		t.Errorf("the sockets have %d records, want %d", n, places)
	}
}

func (b *Balancer) countRecords(t *testing.T, p balance.Pod, kind uint32) int {
	t.Helper()
	m, err := b.openRecords(p, kind)
	if err != nil || m == nil {
		t.Fatalf("the pod %s has no records: %v", p.ID, err)
	}
	defer m.Close()
	return countEntries(t, m)
}

// TestSlots: each pod that sees a Service has records of its own. It keeps them when culvertd
// restarts, also if the former culvertd was killed while it made others. The next pod takes the
// place of one that has ended.
func TestSlots(t *testing.T) {
	w := newWorld(t)
	pods := []balance.Pod{w.pod("a", tenant, "172.16.91.1/32"), w.pod("b", tenant), w.pod("c", tenant), w.pod("idle", neighbor)}
	a, idle := pods[0], pods[3]
	w.serve(a, "172.16.91.1:80")
	view := sticky("172.16.91.1:80")
	apply := func(b *Balancer, pods ...balance.Pod) {
		t.Helper()
		w.apply(b, balance.Table{Pods: pods, Views: map[balance.ViewID]balance.View{tenant: view, neighbor: {}}})
		slots := map[uint32]string{}
		for _, p := range pods {
			slot := b.pods[b.cookies[p.ID]].slot
			if other, taken := slots[slot]; taken || (slot == noSlot) != (p.View == neighbor) {
				t.Errorf("pod %s has slot %d, and pod %q too", p.ID, slot, other)
			}
			slots[slot] = p.ID
		}
	}
	first, err := Open(w.dir, w.cgroup)
	if err != nil {
		t.Fatal(err)
	}
	apply(first, a, idle)
	if _, _, err := w.call(a, "10.96.0.1:80"); err != nil {
		t.Fatal(err)
	}
	w.check(fill(first.tables.records, 2, 2, func(kind int) *ebpf.MapSpec { return recordsOf(room[kind]) })) // and culvertd is killed
	w.check(first.Close())

	next := w.open()
	apply(next, a, pods[1], idle)
	if n := next.countRecords(t, a, clients); n != 1 || next.slots != 2 {
		t.Errorf("after a restart, pod a has %d choices, and there are %d slots, want 1 and 2", n, next.slots)
	}
	apply(next, a, idle)
	apply(next, a, pods[2], idle)
	if next.slots != 2 {
		t.Errorf("there are %d slots for two pods", next.slots)
	}
}
