package socket

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/balance"
)

// TestFullMaps: a Service that does not fit into the maps does not stop Culvert from balancing the
// others, and neither do maps that an earlier culvertd filled. Afterwards the maps have room again.
func TestFullMaps(t *testing.T) {
	const room = 1000
	for _, name := range []string{"backends", "members"} {
		spec := *specs[name]
		t.Cleanup(func() { *specs[name] = spec })
		specs[name].MaxEntries = room
	}
	w := newWorld(t)
	p := w.pod("client", tenant, "172.16.91.1/32", "172.16.91.2/32")
	for _, at := range []string{"172.16.91.1:8080", "172.16.91.2:8080"} {
		w.serve(p, at)
	}
	huge, small := frontend(balance.UDP, "10.96.0.1:80"), frontend(balance.TCP, "10.96.0.2:80")
	many := &balance.Rule{}
	for i := range room + 1 {
		many.Backends = append(many.Backends, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 8080))
	}
	table := func(to string, more balance.View) balance.Table {
		v := balance.View{small: ruleTo(to)}
		for f, r := range more {
			v[f] = r
		}
		return balance.Table{Pods: []balance.Pod{p}, Views: map[balance.ViewID]balance.View{tenant: v}}
	}
	wantAnswer := func(step, from string) {
		t.Helper()
		if who, _, err := w.call(p, "10.96.0.2:80"); err != nil || who != from {
			t.Errorf("%s: answered by %q, %v; want %s", step, who, err, from)
		}
	}
	b := w.open()
	b.interval = 0
	for _, to := range []string{"172.16.91.1:8080", "172.16.91.2:8080"} {
		if err := b.Apply(table(to, balance.View{huge: many})); !errors.Is(err, unix.E2BIG) {
			t.Fatalf("more backends than the maps have: %v, want E2BIG", err)
		}
		wantAnswer("beside a Service that does not fit", to)
	}
	if err := b.Apply(table("172.16.91.1:8080", nil)); err != nil {
		t.Fatal(err)
	}
	wantAnswer("without it", "172.16.91.1:8080")
	if n := countEntries(t, b.tables.backends); n != 1 || len(b.sets) != 1 {
		t.Errorf("%d backends and %d sets are left, want one", n, len(b.sets))
	}

	number := uint32(0)
	for ; b.tables.backends.Put(slotKey(1000, number), backendBytes(many.Backends[number])) == nil; number++ {
	}
	t.Logf("an earlier culvertd left %d backends", number)
	b = w.open()
	b.interval = 0
	if err := b.Apply(table("172.16.91.2:8080", nil)); !errors.Is(err, unix.E2BIG) {
		t.Fatalf("a change while the maps are full: %v, want E2BIG", err)
	}
	wantAnswer("while the maps are full", "172.16.91.1:8080")
	if err := b.Apply(table("172.16.91.2:8080", nil)); err != nil {
		t.Fatal(err)
	}
	wantAnswer("at the second try", "172.16.91.2:8080")
}

// TestI7PodThatFails: a pod whose network namespace cannot be opened delays no change of others, and
// takes no view from pods that culvertd did not find.
func TestI7PodThatFails(t *testing.T) {
	w := newWorld(t)
	p := w.pod("client", tenant, "172.16.91.1/32", "172.16.91.2/32")
	for _, at := range []string{"172.16.91.1:8080", "172.16.91.2:8080"} {
		w.serve(p, at)
	}
	broken := balance.Pod{ID: "broken", Netns: filepath.Join(t.TempDir(), "file"), View: tenant}
	w.check(os.Symlink(broken.Netns, broken.Netns)) // ELOOP, as for any other failure to open it
	b := w.open()
	apply := func(to string, pods ...balance.Pod) error {
		return b.Apply(balance.Table{Pods: pods, Views: map[balance.ViewID]balance.View{tenant: {frontend(balance.TCP, "10.96.0.2:80"): ruleTo(to)}}})
	}
	for to, pods := range map[string][]balance.Pod{"172.16.91.1:8080": {broken, p}, "172.16.91.2:8080": {p, broken}} {
		if err := apply(to, pods...); err == nil || !strings.Contains(err.Error(), "pod sandbox broken") {
			t.Errorf("the error is %v", err)
		}
		if who, _, err := w.call(p, "10.96.0.2:80"); err != nil || who != to {
			t.Errorf("answered by %q, %v; want %s", who, err, to)
		}
	}
	if _ = apply("172.16.91.1:8080", broken); len(b.pods) != 1 {
		t.Errorf("%d pods have a view while one is not known, want the one that had it", len(b.pods))
	}
	if err := apply("172.16.91.1:8080"); err != nil || len(b.pods) != 0 {
		t.Errorf("%d pods have a view after all of them ended: %v", len(b.pods), err)
	}
}

func countEntries(t *testing.T, m *ebpf.Map) (n int) {
	t.Helper()
	if err := each(m, func([]byte, []byte) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// A set of backends that no rule names any more stays for the grace: a program may have read the rule
// just before. Then Sweep frees it.
func TestReplacedSetStaysForTheGrace(t *testing.T) {
	w := newWorld(t)
	p := w.pod("a", tenant)
	now := time.Now()
	b := w.open()
	b.now = func() time.Time { return now }
	for _, to := range []string{"172.16.91.1:8080", "172.16.91.2:8080"} {
		w.check(b.Apply(balance.Table{Pods: []balance.Pod{p}, Views: map[balance.ViewID]balance.View{tenant: {frontend(balance.TCP, "10.96.0.2:80"): ruleTo(to)}}}))
	}
	for _, step := range []struct {
		after time.Duration
		left  int
	}{{0, 2}, {grace - time.Millisecond, 2}, {time.Millisecond, 1}} {
		now = now.Add(step.after)
		w.check(b.Sweep())
		if n := countEntries(t, b.tables.backends); n != step.left || b.Pending() != (step.left > 1) {
			t.Errorf("after %s: %d backends, pending %t, want %d", step.after, n, b.Pending(), step.left)
		}
	}
}
