package vf

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// A message does not list all addresses and settings that the owner of a VF put on it.
func TestDifferencesAreBounded(t *testing.T) {
	l := &Link{Name: "net1", MTU: 1500, Up: true, MoreAddrs: 115904}
	var s Spec
	for i := range 4096 {
		l.Addrs = append(l.Addrs, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 32))
		s.Routes = append(s.Routes, Route{Dst: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)}), 32)})
	}
	s.Interface, s.Addresses = "net1", []Address{{Prefix: netip.MustParsePrefix("10.9.9.9/24")}}
	d := s.Diff(Baseline{MTU: 1500}, "", State{Link: l})
	got := Differences(d)
	if len(got) > 4000 || !strings.Contains(got, "10.1.0.9/32 and 119,990 more], not 10.9.9.9/24") || !strings.HasSuffix(got, fmt.Sprintf("and 4,0%d more", len(d)-20-4000)) {
		t.Errorf("%d bytes: %.600s", len(got), got)
	}
	if d := (Baseline{Name: "net1", MTU: 1500, Up: true}).Diff(State{Link: l}); Differences(d) != "addresses is 120000, not 0" {
		t.Errorf("%s", Differences(d))
	}
}
