package socket

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/balance"
)

const (
	tenant   balance.ViewID = 7
	neighbor balance.ViewID = 8
)

// TestTCP: a client reaches all backends of a ClusterIP, sees the ClusterIP as its peer, and is
// its own backend at times. IPv6 and mapped addresses work alike.
func TestTCP(t *testing.T) { byBoth(t, tryTCP) }

func tryTCP(t *testing.T, w *world, b balancer) {
	p := w.pod("client", tenant, "172.16.91.1/32", "172.16.91.2/32", "fd00:91::1/128", "fd00:91::2/128")
	backends := []string{"172.16.91.1:8080", "172.16.91.2:8080", "[fd00:91::1]:8080", "[fd00:91::2]:8080"}
	for _, at := range backends {
		w.serve(p, at)
	}
	table := balance.Table{Pods: []balance.Pod{p}, Views: map[balance.ViewID]balance.View{tenant: {
		frontend(balance.TCP, "10.96.0.1:80"): ruleTo(backends[:2]...), frontend(balance.TCP, "[fd96::1]:80"): ruleTo(backends[2:]...),
	}}}
	if err := b.Apply(table); err != nil {
		t.Fatal(err)
	}
	for to, want := range map[string][]string{"10.96.0.1:80": backends[:2], "[fd96::1]:80": backends[2:], "[::ffff:10.96.0.1]:80": backends[:2]} {
		seen := map[string]bool{}
		for range 40 {
			who, peer, err := w.call(p, to)
			if err != nil {
				t.Fatalf("%s: %v", to, err)
			}
			if plain := strings.Replace(to, "[::ffff:10.96.0.1]", "10.96.0.1", 1); peer != plain {
				t.Fatalf("%s: the client sees %s as its peer", to, peer)
			}
			seen[who] = true
		}
		if len(seen) != 2 || !seen[want[0]] || !seen[want[1]] {
			t.Errorf("%s: answered by %v, want %v", to, seen, want)
		}
	}
}

// TestUDP: a socket stays at one backend while that is there, sees answers from the ClusterIP,
// and goes to another backend when its own is removed.
func TestUDP(t *testing.T) { byBoth(t, tryUDP) }

func tryUDP(t *testing.T, w *world, b balancer) {
	p := w.pod("client", tenant, "172.16.91.1/32", "172.16.91.2/32", "fd00:91::1/128", "fd00:91::2/128")
	for _, at := range []string{"172.16.91.1:53", "172.16.91.2:53", "[fd00:91::1]:53", "[fd00:91::2]:53"} {
		w.serve(p, at)
	}
	v4, v6 := frontend(balance.UDP, "10.96.0.1:53"), frontend(balance.UDP, "[fd96::1]:53")
	view := balance.View{v4: ruleTo("172.16.91.1:53", "172.16.91.2:53"), v6: ruleTo("[fd00:91::1]:53", "[fd00:91::2]:53")}
	table := balance.Table{Pods: []balance.Pod{p}, Views: map[balance.ViewID]balance.View{tenant: view}}
	if err := b.Apply(table); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"10.96.0.1:53", "[fd96::1]:53"} {
		seen := map[string]bool{}
		for range 20 {
			who, sources, err := w.send(p, to, 3)
			if err != nil {
				t.Fatalf("%s: %v", to, err)
			}
			if who = slices.Compact(who); len(who) != 1 {
				t.Fatalf("%s: one socket was answered by %v", to, who)
			}
			if sources = slices.Compact(sources); len(sources) != 1 || sources[0] != to {
				t.Fatalf("%s: the client sees answers from %v", to, sources)
			}
			seen[who[0]] = true
		}
		if len(seen) != 2 {
			t.Errorf("%s: all sockets were answered by %v", to, seen)
		}
	}
}

// TestRemovedBackend: datagrams of a socket whose backend is removed go to another one.
func TestRemovedBackend(t *testing.T) { byBoth(t, tryRemovedBackend) }

func tryRemovedBackend(t *testing.T, w *world, b balancer) {
	p := w.pod("client", tenant, "172.16.91.1/32", "172.16.91.2/32")
	w.serve(p, "172.16.91.1:53")
	w.serve(p, "172.16.91.2:53")
	f := frontend(balance.UDP, "10.96.0.1:53")
	apply := func(at ...string) {
		t.Helper()
		if err := b.Apply(balance.Table{Pods: []balance.Pod{p}, Views: map[balance.ViewID]balance.View{tenant: {f: ruleTo(at...)}}}); err != nil {
			t.Fatal(err)
		}
	}
	apply("172.16.91.1:53")
	s := w.dialPacket(p)
	if who := s.ask("10.96.0.1:53"); who != "172.16.91.1:53" {
		t.Fatalf("answered by %s", who)
	}
	apply("172.16.91.1:53", "172.16.91.2:53")
	if who := s.ask("10.96.0.1:53"); who != "172.16.91.1:53" {
		t.Errorf("moved to %s although its backend is there", who)
	}
	apply("172.16.91.2:53")
	if who := s.ask("10.96.0.1:53"); who != "172.16.91.2:53" {
		t.Errorf("answered by %s after its backend was removed", who)
	}
}

// I9: a pod that is not attached to the network of a Service is refused at once. A
// network namespace that Culvert does not know is left alone. A Service without
// backends refuses too.
func TestI9ForeignServices(t *testing.T) { byBoth(t, tryForeignServices) }

func tryForeignServices(t *testing.T, w *world, b balancer) {
	own := w.pod("own", tenant, "172.16.91.1/32")
	other := w.pod("other", neighbor, "172.16.91.1/32", "10.96.0.1/32")
	unknown := w.pod("unknown", 0, "10.96.0.1/32")
	w.serve(own, "172.16.91.1:8080")
	w.serve(other, "172.16.91.1:8080")
	w.serve(other, "10.96.0.1:80")
	w.serve(unknown, "10.96.0.1:80")
	f, none, udp := frontend(balance.TCP, "10.96.0.1:80"), frontend(balance.TCP, "10.96.0.2:80"), frontend(balance.UDP, "10.96.0.1:80")
	table := balance.Table{Pods: []balance.Pod{own, other}, Views: map[balance.ViewID]balance.View{
		tenant: {f: ruleTo("172.16.91.1:8080"), none: ruleTo(), udp: ruleTo("172.16.91.1:8080")}, balance.Foreign: {f: ruleTo(), none: ruleTo(), udp: ruleTo()},
	}}
	if err := b.Apply(table); err != nil {
		t.Fatal(err)
	}
	if who, _, err := w.call(own, "10.96.0.1:80"); err != nil || who != "172.16.91.1:8080" {
		t.Errorf("its own network's Service: %q, %v", who, err)
	}
	if who, _, err := w.call(other, "10.96.0.1:80"); !isRefused(err) {
		t.Errorf("another network's Service: %q, %v; want it refused", who, err)
	}
	if who, _, err := w.send(own, "10.96.0.1:80", 1); err != nil || who[0] != "172.16.91.1:8080" {
		t.Errorf("its own network's Service by UDP: %q, %v", who, err)
	}
	if who, err := w.datagram(other, "10.96.0.1:80"); !isRefused(err) && !errors.Is(err, unix.EPERM) { // nftables makes send(2) fail
		t.Errorf("another network's Service by UDP: %q, %v; want it refused", who, err)
	}
	if who, _, err := w.call(unknown, "10.96.0.1:80"); err != nil || who != "10.96.0.1:80" {
		t.Errorf("without a view: %q, %v; want the address itself", who, err)
	}
	if _, _, err := w.call(own, "10.96.0.2:80"); !isRefused(err) {
		t.Errorf("a Service without backends: %v; want it refused", err)
	}
	// It leaves the network: the next connection is refused.
	table.Pods = []balance.Pod{{ID: own.ID, Netns: own.Netns, View: neighbor}}
	if err := b.Apply(table); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.call(own, "10.96.0.1:80"); !isRefused(err) {
		t.Errorf("after it left the network: %v; want it refused", err)
	}
	if who, _, err := w.call(other, "10.96.0.1:80"); err != nil || who != "10.96.0.1:80" {
		t.Errorf("after it is no pod of ours: %q, %v", who, err)
	}
}
