package balance

import (
	"net/netip"
	"testing"
)

// TestSplit: each protocol is in one part, and pods and views are in both.
func TestSplit(t *testing.T) {
	at := netip.MustParseAddr("10.96.0.1")
	view := View{}
	for _, p := range []Protocol{TCP, UDP, SCTP} {
		view[Frontend{at, 80, p}] = &Rule{}
	}
	table := Table{Pods: []Pod{{ID: "a"}}, Views: map[ViewID]View{1: view}}
	isSCTP := func(p Protocol) bool { return p == SCTP }
	one, other := table.Split(isSCTP), table.Split(func(p Protocol) bool { return !isSCTP(p) })
	if len(one.Views[1]) != 1 || len(other.Views[1]) != 2 || one.Views[1][Frontend{at, 80, SCTP}] != view[Frontend{at, 80, SCTP}] {
		t.Errorf("parts are %v and %v", one.Views, other.Views)
	}
	if len(one.Pods) != 1 || len(other.Pods) != 1 {
		t.Errorf("pods are %v and %v", one.Pods, other.Pods)
	}
}

func TestEqual(t *testing.T) {
	a := netip.MustParseAddrPort("172.16.91.1:80")
	one := &Rule{Backends: []netip.AddrPort{a}}
	for _, other := range []*Rule{nil, {}, {Backends: []netip.AddrPort{a, a}}, {Backends: one.Backends, Affinity: 1}} {
		if one.Equal(other) {
			t.Errorf("%v equals %v", one, other)
		}
	}
	if !one.Equal(&Rule{Backends: []netip.AddrPort{a}}) {
		t.Errorf("%v differs from itself", one)
	}
}
