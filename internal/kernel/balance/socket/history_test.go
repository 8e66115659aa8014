package socket

import (
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/internal/kernel/balance"
)

// drawTable draws which pods are there, in which views, and the rules of each view. Few addresses
// and ports make rules that come back, and sets that views share.
func drawTable(rt *rapid.T, pods []balance.Pod) balance.Table {
	t := balance.Table{Views: map[balance.ViewID]balance.View{balance.Foreign: {}, tenant: {}, neighbor: {}}}
	for _, p := range pods {
		if rapid.Bool().Draw(rt, "attached "+p.ID) {
			p.View = rapid.SampledFrom([]balance.ViewID{tenant, neighbor}).Draw(rt, "view of "+p.ID)
			t.Pods = append(t.Pods, p)
		}
	}
	for service := range rapid.IntRange(0, 3).Draw(rt, "Services") {
		f := balance.Frontend{
			Addr: netip.AddrFrom4([4]byte{10, 96, 0, byte(service)}), Port: 80,
			Protocol: rapid.SampledFrom([]balance.Protocol{balance.TCP, balance.UDP}).Draw(rt, "protocol"),
		}
		r := &balance.Rule{Affinity: time.Duration(rapid.IntRange(0, 1).Draw(rt, "affinity")) * time.Minute}
		for last := range rapid.IntRange(0, 4).Draw(rt, "backends") {
			r.Backends = append(r.Backends, netip.AddrPortFrom(netip.AddrFrom4([4]byte{172, 16, 91, byte(last)}), 8080))
		}
		t.Views[rapid.SampledFrom([]balance.ViewID{tenant, neighbor}).Draw(rt, "view of Service")][f] = r
		t.Views[balance.Foreign][f] = &balance.Rule{}
	}
	return t
}

// says returns the contents of the kernel's maps in the form of a table.
func (b *Balancer) says() (views map[uint64]balance.ViewID, rules map[string]string) {
	rules = map[string]string{}
	for k, r := range b.rules {
		var backends []netip.AddrPort
		if r.set != 0 && b.sets[r.set] != nil {
			backends = b.sets[r.set].Backends
		}
		rules[fmt.Sprint(k.id(), k.frontend())] = fmt.Sprint(backends, int(r.count), r.affinity)
	}
	views = map[uint64]balance.ViewID{}
	for cookie, p := range b.pods {
		views[cookie] = p.view
	}
	return views, rules
}

// TestHistories: after every step of random histories of Services, pods and restarts of culvertd,
// the kernel has exactly the table. After the grace it has no set of backends that no rule names.
func TestHistories(t *testing.T) {
	if os.Getenv("CULVERT_LAB_NODE") != "" { // emulated: to load the programs takes long
		if err := flag.Set("rapid.checks", "2"); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t)
	var pods []balance.Pod
	cookies := map[string]uint64{}
	for _, id := range []string{"a", "b", "c"} {
		p := w.pod(id, tenant)
		cookie, err := cookieOf(p.Netns)
		if err != nil {
			t.Fatal(err)
		}
		pods, cookies[id] = append(pods, p), cookie
	}
	rapid.Check(t, func(rt *rapid.T) {
		var b *Balancer
		open := func() {
			if b != nil {
				w.check(b.Close())
			}
			var err error
			if b, err = Open(w.dir, w.cgroup); err != nil {
				rt.Fatal(err)
			}
			b.interval = 0
		}
		open()
		defer func() { w.check(b.Close()) }()
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			if rapid.Bool().Draw(rt, "culvertd restarts") {
				open()
			}
			table := drawTable(rt, pods)
			if err := b.Apply(table); err != nil {
				rt.Fatal(err)
			}
			if err := b.Sweep(); err != nil {
				rt.Fatal(err)
			}
			wantViews, wantRules := map[uint64]balance.ViewID{}, map[string]string{}
			for _, p := range table.Pods {
				wantViews[cookies[p.ID]] = p.View
			}
			for id, view := range table.Views {
				for f, r := range view {
					wantRules[fmt.Sprint(uint64(id), f)] = fmt.Sprint(r.Backends, len(r.Backends), seconds(r.Affinity))
				}
			}
			inKernel, err := Open(w.dir, w.cgroup)
			if err != nil {
				rt.Fatal(err)
			}
			views, rules := inKernel.says()
			if !maps.Equal(views, wantViews) || !maps.Equal(rules, wantRules) {
				rt.Errorf("the kernel has the views %v and the rules %v,\nwant %v and %v", views, rules, wantViews, wantRules)
			}
			used := map[uint32]bool{0: true}
			for _, r := range inKernel.rules {
				used[r.set] = true
			}
			if unused := slices.DeleteFunc(slices.Collect(maps.Keys(inKernel.sets)), func(set uint32) bool { return used[set] }); len(unused) > 0 {
				rt.Errorf("no rule names the sets %v", unused)
			}
			w.check(inKernel.Close())
		}
	})
}
