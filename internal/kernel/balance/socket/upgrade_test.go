package socket

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/balance"
)

// TestUpgradeUnderLoad: culvertd is replaced while a pod connects, by one whose maps have the same
// layout and by one with another layout in turn. No connection fails, each is balanced, and the maps
// of the former layout are freed.
func TestUpgradeUnderLoad(t *testing.T) {
	w := newWorld(t)
	p := w.pod("client", tenant, "172.16.91.1/32", "172.16.91.2/32")
	w.serve(p, "172.16.91.1:80")
	w.serve(p, "172.16.91.2:80")
	table := tableOf(p, frontend(balance.TCP, "10.96.0.1:80"), ruleTo("172.16.91.1:80", "172.16.91.2:80"))
	upgrades := 8
	if os.Getenv("CULVERT_LAB_NODE") != "" { // emulated: to load the programs takes long
		upgrades = 2
	}
	culvertd, err := Open(w.dir, w.cgroup)
	if err != nil {
		t.Fatal(err)
	}
	w.apply(culvertd, table)
	former := filepath.Join(w.dir, "services-v0")
	upgraded := make(chan error, 1)
	go func() {
		for i := range upgrades {
			err := culvertd.Close()
			if err == nil && i%2 == 1 { // as if the maps that the programs use were pinned by another version
				err = os.Rename(filepath.Join(w.dir, version), former)
			}
			if err == nil {
				culvertd, err = Open(w.dir, w.cgroup)
			}
			if err == nil {
				err = culvertd.Apply(table)
			}
			if err != nil {
				upgraded <- fmt.Errorf("upgrade %d: %w", i, err)
				return
			}
		}
		upgraded <- nil
	}()
	calls, answered := 0, map[string]int{}
	for ; ; calls++ {
		who, _, failed := w.call(p, "10.96.0.1:80")
		if failed != nil {
			t.Fatalf("call %d: %v", calls, failed)
		}
		answered[who]++
		select {
		case err := <-upgraded:
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d upgrades, %d calls, answered by %v", upgrades, calls+1, answered)
			if _, err := os.Stat(former); !os.IsNotExist(err) {
				t.Errorf("the maps of the former layout are still pinned: %v", err)
			}
			w.check(culvertd.Close())
			return
		default:
		}
	}
}

// TestManyBackends: the maps hold 2,000 backends of a TCP and of a UDP Service, connections reach
// them, and one backend less is written without a connection that fails. The log has the times.
func TestManyBackends(t *testing.T) {
	w := newWorld(t)
	p := w.pod("client", tenant)
	w.serve(p, "0.0.0.0:8080") // at all of 127.0.0.0/8, which is local
	tcp, udp := frontend(balance.TCP, "10.96.0.1:80"), frontend(balance.UDP, "10.96.0.1:80")
	table := func(backends int) balance.Table {
		r, same := &balance.Rule{}, &balance.Rule{}
		for i := range backends {
			r.Backends = append(r.Backends, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 1, byte(i >> 8), byte(i)}), 8080))
		}
		same.Backends = r.Backends
		out := tableOf(p, tcp, r)
		out.Views[tenant][udp] = same
		return out
	}
	b := w.open()
	b.interval = 0
	for _, backends := range []int{2000, 1999} {
		start := time.Now()
		w.apply(b, table(backends))
		t.Logf("2 Services with %d backends each: written in %v", backends, time.Since(start))
		w.check(b.Sweep())
		if got := b.count(t); got["backends"] != 2*backends || got["members"] != backends || got["rules"] != 2 {
			t.Errorf("the maps have %v, want %d backends and %d members", got, 2*backends, backends)
		}
		for range 50 {
			if _, _, err := w.call(p, "10.96.0.1:80"); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := w.send(p, "10.96.0.1:80", 3); err != nil {
			t.Fatal(err)
		}
	}
}
