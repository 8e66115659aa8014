//go:build go1.25

package agent

import (
	"errors"
	"net/netip"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/balance"
	"github.com/culvert-net/culvert/internal/node/service/table"
)

// TestControllerAwayForTenMinutes: the state of the node does not expire while neither the
// controller nor the API server has news. The kernel keeps its table, the status stays, and a pod
// that starts meanwhile is balanced by the same backends. Afterwards the Agent follows changes. The
// clock is that of synctest, so the test does not take ten minutes.
func TestControllerAwayForTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.serve(balance.TCP)
		w.in.Services[0].Affinity = 3 * time.Hour
		w.sandbox("s1", "net1", net1)
		w.attach(0, "default/a", "s1", "net1", "/run/netns/a")
		a := w.agent()
		var g sync.WaitGroup
		g.Go(func() { a.Run(t.Context()) })
		t.Cleanup(g.Wait) // the test's context has ended then

		synctest.Wait()
		first, status := w.lastTable(t), *a.Status()
		away := func(d time.Duration) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if len(a.Problems()) > 0 {
				t.Errorf("problems are %v", a.Problems())
			}
		}
		away(10 * time.Minute)
		if got := w.lastTable(t); !reflect.DeepEqual(got, first) || !reflect.DeepEqual(*a.Status(), status) {
			t.Errorf("after ten minutes the table is %+v and the status %+v; want %+v and %+v", got, *a.Status(), first, status)
		}

		w.sandbox("s2", "net1", net1)
		w.attach(1, "default/b", "s2", "net1", "/run/netns/b")
		away(10 * time.Minute)
		got := w.lastTable(t)
		if len(got.Pods) != 2 || got.Pods[1].View != got.Pods[0].View || !reflect.DeepEqual(got.Views, first.Views) {
			t.Errorf("with a pod that started meanwhile the table is %+v", got)
		}

		w.change(func() { w.fails = errors.New("no space") }) // culvertd tries again ever later, without end
		w.sandbox("s3", "net1", net1)
		w.attach(2, "default/c", "s3", "net1", "/run/netns/c")
		time.Sleep(10 * time.Minute)
		w.change(func() { w.fails = nil })
		away(2 * a.lastRetry)
		if n := len(w.lastTable(t).Pods); n != 3 {
			t.Errorf("%d pods are balanced after the kernel refused a table for ten minutes, want 3", n)
		}

		w.change(func() {
			s := *w.in.Slices[0]
			s.Endpoints = []table.Endpoint{{Addr: netip.MustParseAddr("172.16.91.2"), Ready: true, Serving: true}}
			w.in.Slices = []*table.Slice{&s}
		})
		w.woken.Notify()
		synctest.Wait()
		f := balance.Frontend{Addr: netip.MustParseAddr("10.96.0.1"), Port: 80, Protocol: balance.TCP}
		got = w.lastTable(t)
		if r := got.Views[got.Pods[0].View][f]; r == nil || len(r.Backends) != 1 || r.Backends[0].String() != "172.16.91.2:80" {
			t.Errorf("after the controller is back pods are led to %+v", r)
		}
	})
}

// lastTable returns the table that the kernel has.
func (w *world) lastTable(t *testing.T) balance.Table {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.tables) == 0 {
		t.Fatal("the kernel has no table")
	}
	return w.tables[len(w.tables)-1]
}

// change changes the world.
func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}
