package vf

import (
	"net/netip"
	"testing"
)

// ParseGuard reads the text of a guard back, and refuses other text.
func TestGuardText(t *testing.T) {
	mac := MAC{0x52, 0x54, 0, 0, 0, 1}
	for _, g := range []Guard{
		{Mode: GuardARP, MAC: mac},
		{Mode: GuardIP, MAC: mac, Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.2"), netip.MustParseAddr("fd00::2")}},
	} {
		got, err := ParseGuard(g.String())
		if err != nil || got.String() != g.String() {
			t.Errorf("%s is read as %s, %v", g, got, err)
		}
	}
	for _, s := range []string{"", "none", "altered", "mac of 52:54:00:00:00:01", "ip of x", "ip of 52:54:00:00:00:01, x"} {
		if g, err := ParseGuard(s); err == nil {
			t.Errorf("%q is read as %s", s, g)
		}
	}
}

// A guard is enforced only where the pod has no way past it.
func TestGuardDegree(t *testing.T) {
	for _, tt := range []struct {
		power Power
		rdma  bool
		want  Degree
	}{
		{PowerNone, false, GuardEnforced},
		{PowerNone, true, GuardPartly},
		{PowerRaw, false, GuardPartly},
		{"", false, GuardPartly},
		{PowerAdmin, true, GuardNot},
	} {
		got, why := GuardDegree(tt.power, tt.rdma)
		if got != tt.want || (why == "") != (got == GuardEnforced) {
			t.Errorf("power %q, RDMA %t: %s (%s), not %s", tt.power, tt.rdma, got, why, tt.want)
		}
	}
}

// The guard at a member of a bond pins each of the bond's addresses once, whether it is in
// Addresses or GuardAddresses. It leaves out the member's own link-local address, which it lets
// pass anyway.
func TestGuardOfAMember(t *testing.T) {
	own, other := MAC{2, 0, 0, 0, 0, 1}, MAC{2, 0, 0, 0, 0, 2}
	a := netip.MustParsePrefix("10.1.0.2/24")
	pinned := []netip.Addr{a.Addr(), own.LinkLocal(), other.LinkLocal()}
	for _, s := range []Spec{
		{Guard: GuardIP, GuardAddresses: pinned},
		{Guard: GuardIP, GuardAddresses: pinned, Addresses: []Address{{Prefix: a}}},
	} {
		const want = "ip of 02:00:00:00:00:01, 10.1.0.2, fe80::ff:fe00:2"
		if got := s.GuardOver(Baseline{LinkMAC: own}).String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
