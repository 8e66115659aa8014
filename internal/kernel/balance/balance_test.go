package balance

import (
	"net/netip"
	"testing"
)

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
