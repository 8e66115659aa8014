package socket

import (
	"errors"
	"maps"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/balance"
)

// apply fails the test when a table cannot be applied.
func (w *world) apply(b balancer, t balance.Table) {
	w.t.Helper()
	if err := b.Apply(t); err != nil {
		w.t.Fatal(err)
	}
}

// tableOf is one pod that sees one Frontend.
func tableOf(p balance.Pod, f balance.Frontend, r *balance.Rule) balance.Table {
	return balance.Table{Pods: []balance.Pod{p}, Views: map[balance.ViewID]balance.View{p.View: {f: r}}}
}

// count returns how many entries each map has.
func (b *Balancer) count(t *testing.T) map[string]int {
	t.Helper()
	out := map[string]int{}
	for name := range specs {
		n := 0
		if err := each(*b.tables.byName(name), func(_, _ []byte) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		out[name] = n
	}
	return out
}

// TestAffinity: with affinity a client stays at its backend, also when others are added. It gets
// another backend when its own is removed, or when it has made no connection for the time of the
// affinity.
func TestAffinity(t *testing.T) { byBoth(t, tryAffinity) }

func tryAffinity(t *testing.T, w *world, b balancer) {
	p := w.pod("client", tenant, "172.16.91.1/32", "172.16.91.2/32", "172.16.91.3/32")
	all := []string{"172.16.91.1:80", "172.16.91.2:80", "172.16.91.3:80"}
	for _, at := range all {
		w.serve(p, at)
	}
	const long, short = "10.96.0.1:80", "10.96.0.2:80" // a Service for each affinity
	sticky := func(affinity time.Duration, at ...string) *balance.Rule {
		r := ruleTo(at...)
		r.Affinity = affinity
		return r
	}
	apply := func(at ...string) {
		table := tableOf(p, frontend(balance.TCP, long), sticky(time.Hour, at...))
		table.Views[tenant][frontend(balance.TCP, short)] = sticky(time.Second, at...)
		w.apply(b, table)
	}
	apply(all[1])
	calls := func(n int, to string) map[string]int {
		seen := map[string]int{}
		for range n {
			who, _, err := w.call(p, to)
			if err != nil {
				t.Fatal(err)
			}
			seen[who]++
		}
		return seen
	}
	if got := calls(1, long); got[all[1]] != 1 {
		t.Fatalf("answered by %v", got)
	}
	apply(all...)
	if got := calls(20, long); got[all[1]] != 20 {
		t.Errorf("with affinity: answered by %v, want all by %s", got, all[1])
	}
	apply(all[0], all[2])
	got := calls(20, long)
	if got[all[1]] != 0 || len(got) != 1 {
		t.Errorf("after its backend was removed: answered by %v, want all by one of the others", got)
	}
	seen := map[string]bool{}
	for range 40 { // 1 in 2^39 that one backend answers all
		if b, ok := b.(*Balancer); ok {
			b.ageChoices(t, p)
		} else if len(seen) < 2 {
			time.Sleep(1100 * time.Millisecond)
		}
		for who := range calls(1, short) {
			seen[who] = true
		}
	}
	if len(seen) != 2 {
		t.Errorf("answered by %v, though the affinity was over each time", seen)
	}
}

// ageChoices makes the choices of a pod as old as the machine.
func (b *Balancer) ageChoices(t *testing.T, p balance.Pod) {
	t.Helper()
	choices, err := b.openRecords(p, clients)
	if err != nil {
		t.Fatal(err)
	}
	defer choices.Close()
	var old []key
	err = each(choices, func(k, _ []byte) error { old = append(old, key(k)); return nil })
	for _, k := range old {
		v := make([]byte, recordSize)
		err = errors.Join(err, choices.Lookup(k[:], &v))
		native.PutUint64(v[choiceAge:], 0)
		err = errors.Join(err, choices.Put(k[:], v))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestConnectedDatagrams: culvertd ends a UDP socket that is connected to a removed backend, also
// if the previous culvertd removed it. A socket whose backend stays goes on, and so does a socket
// that connected to the address itself.
func TestConnectedDatagrams(t *testing.T) {
	w := newWorld(t)
	skipWithoutList(t)
	p := w.pod("client", tenant, "172.16.91.1/32", "172.16.91.2/32", "fd00:91::1/128")
	for _, at := range []string{"172.16.91.1:53", "172.16.91.2:53", "[fd00:91::1]:53"} {
		w.serve(p, at)
	}
	b := w.open()
	gone, stays, v6 := frontend(balance.UDP, "10.96.0.1:53"), frontend(balance.UDP, "10.96.0.2:53"), frontend(balance.UDP, "[fd96::1]:53")
	table := tableOf(p, gone, ruleTo("172.16.91.1:53"))
	table.Views[tenant][stays], table.Views[tenant][v6] = ruleTo("172.16.91.2:53"), ruleTo("[fd00:91::1]:53")
	w.apply(b, table)
	dial := func(to string) (c net.Conn) {
		w.in(p, func() (err error) { c, err = net.Dial("udp", to); return err })
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	lives := func(c net.Conn) error {
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
		_ = c.SetReadDeadline(time.Now().Add(patience))
		_, err := c.Read(make([]byte, 64))
		return err
	}
	ends, ends6, remains, direct := dial("10.96.0.1:53"), dial("[fd96::1]:53"), dial("10.96.0.2:53"), dial("172.16.91.1:53")
	check := func(want ...bool) {
		t.Helper()
		for i, c := range []net.Conn{ends, ends6, remains, direct} {
			if err := lives(c); (err == nil) != want[i] || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %v; want it alive: %t", c.RemoteAddr(), err, want[i])
			}
		}
	}
	check(true, true, true, true)
	table.Views[tenant][gone] = ruleTo("172.16.91.2:53")
	table.Views[tenant][stays] = ruleTo("172.16.91.2:53", "172.16.91.1:53")
	w.apply(b, table)
	check(false, true, true, true)
	delete(table.Views[tenant], v6)
	w.check(b.dropRules(map[key]wanted{newKey(uint64(tenant), stays): {}, newKey(uint64(tenant), gone): {}})) // and culvertd is killed
	next := w.open()
	table.Views[tenant][v6] = ruleTo()
	w.apply(next, table)
	check(false, false, true, true)
}

// TestRestart: the kernel balances while culvertd is away, and the next culvertd reads the maps and
// replaces no correct entry.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	p := w.pod("client", tenant, "172.16.91.1/32", "172.16.91.2/32")
	w.serve(p, "172.16.91.1:80")
	w.serve(p, "172.16.91.2:80")
	f, g := frontend(balance.TCP, "10.96.0.1:80"), frontend(balance.UDP, "10.96.0.2:80")
	table := tableOf(p, f, ruleTo("172.16.91.1:80", "172.16.91.2:80"))
	table.Views[tenant][g] = ruleTo("172.16.91.1:80")
	first, err := Open(w.dir, w.cgroup)
	if err != nil {
		t.Fatal(err)
	}
	w.apply(first, table)
	before := maps.Clone(first.rules)
	w.check(first.Close())
	if who, _, err := w.call(p, "10.96.0.1:80"); err != nil {
		t.Errorf("while culvertd is away: %q, %v", who, err)
	}
	second := w.open()
	w.apply(second, table)
	if !maps.Equal(before, second.rules) || second.Pending() {
		t.Errorf("the rules were %v, and are %v after a restart", before, second.rules)
	}
	if who, _, err := w.call(p, "10.96.0.1:80"); err != nil {
		t.Errorf("after the restart: %q, %v", who, err)
	}
	delete(table.Views[tenant], g)
	w.apply(second, table)
	second.interval = 0
	w.check(second.Sweep())
	if got := second.count(t); got["rules"] != 1 || got["backends"] != 2 || got["members"] != 0 || got["pods"] != 1 {
		t.Errorf("left after a Service was removed: %v", got)
	}
}

// TestCrash: culvertd dies in the middle of writing or freeing a set of backends; the next one
// frees the rest, and no rule names it.
func TestCrash(t *testing.T) {
	w := newWorld(t)
	p := w.pod("client", tenant, "172.16.91.1/32")
	w.serve(p, "172.16.91.1:53")
	f := frontend(balance.UDP, "10.96.0.1:53")
	for after := range 6 {
		b, err := Open(w.dir, w.cgroup)
		if err != nil {
			t.Fatal(err)
		}
		w.apply(b, tableOf(p, f, ruleTo("172.16.91.1:53")))
		whole := ruleTo("172.16.91.1:53", "172.16.91.1:54", "172.16.91.1:55")
		set, err := b.writeSet(f, whole)
		if err != nil {
			t.Fatal(err)
		}
		for i, at := range whole.Backends { // leave the first half of a set that is written, or freed
			if 2*i >= after {
				w.check(forget(b.tables.backends, slotKey(set, uint32(i))))
			}
			if 2*i+1 >= after {
				w.check(forget(b.tables.members, memberKey(set, at)))
			}
		}
		w.check(b.Close())
		next, err := Open(w.dir, w.cgroup)
		if err != nil {
			t.Fatal(err)
		}
		next.interval = 0
		w.apply(next, tableOf(p, f, ruleTo("172.16.91.1:53")))
		w.check(next.Sweep())
		if got := next.count(t); got["backends"] != 1 || got["members"] != 1 {
			t.Errorf("after %d of 6 writes: left are %v", after, got)
		}
		w.check(next.Close())
	}
}

// TestRemove: nothing is left of an uninstalled Culvert, and a ClusterIP is an address again.
func TestRemove(t *testing.T) {
	w := newWorld(t)
	p := w.pod("client", tenant, "172.16.91.1/32", "10.96.0.1/32")
	w.serve(p, "172.16.91.1:80")
	w.serve(p, "10.96.0.1:80")
	b := w.open()
	w.apply(b, tableOf(p, frontend(balance.TCP, "10.96.0.1:80"), ruleTo("172.16.91.1:80")))
	if who, _, err := w.call(p, "10.96.0.1:80"); err != nil || who != "172.16.91.1:80" {
		t.Fatalf("%q, %v", who, err)
	}
	for range 2 { // the second time there is nothing
		w.check(Remove(w.dir))
	}
	if _, err := os.Stat(w.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", w.dir, err)
	}
	deadline := time.Now().Add(patience)
	for { // the kernel detaches programs a moment after their pins are gone
		who, _, err := w.call(p, "10.96.0.1:80")
		if err == nil && who == "10.96.0.1:80" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after Remove: %q, %v; want the address itself", who, err)
		}
	}
}

// TestNotHere: without cgroup2 or a BPF file system the error says so.
func TestNotHere(t *testing.T) {
	w := newWorld(t)
	for _, at := range [][2]string{{w.dir, t.TempDir()}, {t.TempDir() + "/culvert", w.cgroup}} {
		if b, err := Open(at[0], at[1]); err == nil {
			t.Errorf("%v: opened: %v", at, b.Close())
		}
	}
}

// TestUpdateUnderLoad: no connection fails while backends come and go, as long as one is
// there at each moment.
func TestUpdateUnderLoad(t *testing.T) { byBoth(t, tryUpdateUnderLoad) }

func tryUpdateUnderLoad(t *testing.T, w *world, b balancer) {
	p := w.pod("client", tenant, "172.16.91.1/32", "172.16.91.2/32")
	w.serve(p, "172.16.91.1:80")
	w.serve(p, "172.16.91.2:80")
	f, updates := frontend(balance.TCP, "10.96.0.1:80"), 30 // nftables takes 50 ms for each
	if b, ok := b.(*Balancer); ok {
		b.interval, updates = 10*time.Millisecond, 500
	}
	w.apply(b, tableOf(p, f, ruleTo("172.16.91.1:80")))
	done := make(chan error, 1)
	var made atomic.Int64 // calls
	go func() {
		// On a busy machine there are more updates, until there were calls between them.
		for i := 0; i < updates || made.Load() < int64(updates/5); i++ {
			at := [][]string{{"172.16.91.1:80", "172.16.91.2:80"}, {"172.16.91.2:80"}, {"172.16.91.1:80"}}[i%3]
			if err := b.Apply(tableOf(p, f, ruleTo(at...))); err != nil {
				done <- err
				return
			}
			time.Sleep(time.Millisecond)
		}
		done <- nil
	}()
	for ; ; made.Add(1) {
		if _, _, err := w.call(p, "10.96.0.1:80"); err != nil {
			t.Fatalf("call %d: %v", made.Load(), err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
	}
}
