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
		{Mode: GuardIP, MAC: mac, Allow: []GuardKey{AllowDHCPServer, AllowVRRP}},
		{Mode: GuardIP, MAC: mac, Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.2"), netip.MustParseAddr("fd00::2")}},
	} {
		got, err := ParseGuard(g.String())
		if err != nil || got.String() != g.String() {
			t.Errorf("%s is read as %s, %v", g, got, err)
		}
	}
	for _, s := range []string{"", "none", "altered", "mac of 52:54:00:00:00:01", "ip of x", "ip of 52:54:00:00:00:01, x", "ip+x of 52:54:00:00:00:01"} {
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

// A guard that was altered or is missing is a difference. A guard that was not read is none.
func TestGuardDiff(t *testing.T) {
	mac := MAC{2, 0, 0, 0, 0, 1}
	const wanted = "ip of 02:00:00:00:00:01, 10.1.0.2"
	a := Address{Prefix: netip.MustParsePrefix("10.1.0.2/24")}
	s := Spec{Guard: GuardIP, Addresses: []Address{a}}
	same := Guard{Mode: GuardIP, MAC: mac, Addresses: []netip.Addr{a.Prefix.Addr()}}
	for _, tt := range []struct {
		name string
		spec Spec
		have *Guard
		want string
	}{
		{"not read", s, nil, ""},
		{"as wanted", s, &same, ""},
		{"altered", s, &Guard{Mode: GuardIP, MAC: mac, Altered: true},
			"guard is altered, not " + wanted},
		{"missing", s, &Guard{}, "guard is none, not " + wanted},
		{"without the address", s, &Guard{Mode: GuardIP, MAC: mac},
			"guard is ip of 02:00:00:00:00:01, not " + wanted},
		{"not wanted", Spec{}, &same, "guard is " + wanted + ", not none"},
		{"none, as wanted", Spec{}, &Guard{}, ""},
	} {
		got := Differences(tt.spec.GuardDiff(Baseline{LinkMAC: mac}, Link{Guard: tt.have}))
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// The text about a guard has its restriction and the reason for it.
func TestDescribeGuard(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{DescribeGuard("ip", GuardEnforced, ""), "guard ip is enforced"},
		{DescribeGuard("ip", GuardPartly, "RDMA"), "guard ip is partly enforced: RDMA"},
		{DescribeGuard("arp", GuardNot, "privileged"), "guard arp is not enforced: privileged"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}
