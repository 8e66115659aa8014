package vf

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBondModes(t *testing.T) {
	for number, m := range bondModes {
		if got, err := ParseBondMode(string(m)); err != nil || got.Number() != uint8(number) || BondModeOf(uint8(number)) != m {
			t.Errorf("%s is %d: %v", m, got.Number(), err)
		}
		if err := m.CheckVFs(); (err == nil) != (m == BondActiveBackup) {
			t.Errorf("%s: %v", m, err)
		}
		for _, allow := range [][]GuardKey{nil, {AllowLACP}} {
			movesMACs := m == "balance-tlb" || m == "balance-alb"
			if err := m.CheckGuard(allow); (err != nil) != (movesMACs || m == "802.3ad" && allow == nil) {
				t.Errorf("a guard with %v and %s: %v", allow, m, err)
			}
		}
	}
	if m := BondModeOf(9); m != "mode 9" {
		t.Errorf("%s", m)
	}
}

// PFs 0 and 1 are one card on NUMA node 0, PF 2 another card there, PF 3 a card on node 1. PFs 4
// and 5 share a port.
func TestSharedPart(t *testing.T) {
	pf := func(bus, function uint8, numa int, port string) PF {
		return PF{ID: PFID{MAC: MAC{2, 0, 0, 0, bus, function}}, Name: string(rune('a' + bus + function)), PCI: PCIAddr{Bus: bus, Function: function}, NUMA: numa, Port: port}
	}
	pfs := []PF{pf(1, 0, 0, ""), pf(1, 1, 0, ""), pf(3, 0, 0, ""), pf(4, 0, 1, ""), pf(6, 0, 1, "p0"), pf(6, 1, 1, "p0")}
	for _, tt := range []struct {
		a    AntiAffinity
		p, q int
		want string
	}{
		{ApartPF, 0, 0, "PF b"},
		{ApartPF, 0, 1, ""},
		{ApartPF, 4, 5, "port p0"},
		{ApartNIC, 0, 1, "the card of PFs b and c"},
		{ApartNIC, 0, 2, ""},
		{ApartNUMA, 0, 2, "NUMA node 0 of PFs b and d"},
		{ApartNUMA, 0, 3, ""},
		{ApartNone, 0, 0, ""},
	} {
		if got := tt.a.SharedPart(pfs[tt.p], pfs[tt.q]); got != tt.want {
			t.Errorf("%s of PFs %d and %d: %q, want %q", tt.a, tt.p, tt.q, got, tt.want)
		}
	}
}

func TestCountApart(t *testing.T) {
	pf := func(bus, function uint8, numa int) PF {
		return PF{ID: PFID{MAC: MAC{2, 0, 0, 0, bus, function}}, PCI: PCIAddr{Bus: bus, Function: function}, NUMA: numa}
	}
	pfs := []PF{pf(1, 0, 0), pf(1, 1, 0), pf(2, 0, 0), pf(3, 0, 1), pf(1, 0, 0)}
	for a, want := range map[AntiAffinity]int{ApartPF: 4, ApartNIC: 3, ApartNUMA: 2, ApartNone: 5} {
		if got := a.CountApart(pfs); got != want {
			t.Errorf("%s: %d, want %d", a, got, want)
		}
	}
}

func TestBondDiff(t *testing.T) {
	mtu := 1400
	b := Bond{Links: 2, Mode: BondActiveBackup, ARPInterval: 50, ARPTargets: []netip.Addr{netip.MustParseAddr("10.1.0.1")}, ARPMissedMax: 1}
	right := BondState{Link: Link{Name: "net1", MTU: 1400, Up: true}, Mode: BondActiveBackup, FailOverMAC: true, ARPInterval: 50, ARPTargets: b.ARPTargets, ARPMissedMax: 1, Active: true}
	for name, tt := range map[string]struct {
		change func(*BondState)
		want   string
	}{
		"as wanted":         {func(*BondState) {}, ""},
		"another one sends": {func(s *BondState) { s.Active = false }, ""},
		"another bond":      {func(s *BondState) { s.Link.Name = "bond0" }, "bond is bond0, not net1"},
		"mode":              {func(s *BondState) { s.Mode = "broadcast" }, "bond mode is broadcast, not active-backup"},
		"MAC address stays": {func(s *BondState) { s.FailOverMAC = false }, "fail_over_mac is false, not true"},
		"carrier":           {func(s *BondState) { s.ARPInterval, s.ARPTargets = 0, nil }, "arp_interval is 0, not 50; arp_ip_target is [], not [10.1.0.1]"},
		"missed answers":    {func(s *BondState) { s.ARPMissedMax = 2 }, "arp_missed_max is 2, not 1"},
		"an old kernel":     {func(s *BondState) { s.ARPMissedMax = 0 }, ""},
		"MTU":               {func(s *BondState) { s.Link.MTU = 1500 }, "bond mtu is 1500, not 1400"},
		"down":              {func(s *BondState) { s.Link.Up = false }, "bond up is false, not true"},
	} {
		s := right
		tt.change(&s)
		if diff := cmp.Diff(tt.want, Differences(b.Diff("net1", &mtu, &s))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := Differences(b.Diff("net1", &mtu, nil)); got != "bond is none, not net1" {
		t.Errorf("no bond: %s", got)
	}
}

func TestParseAntiAffinity(t *testing.T) {
	for _, s := range []string{"pf", "nic", "numa", "none"} {
		if got, err := ParseAntiAffinity(s); err != nil || string(got) != s {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "PF", "card"} {
		if got, err := ParseAntiAffinity(s); err == nil || got != "" {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
}

// A person may name the primary PF by its netdevice, its port or its PCI address.
func TestPrefersPF(t *testing.T) {
	pf := PF{Name: "enp1s0", AltNames: []string{"uplink"}, PCI: PCIAddr{Bus: 1}}
	split := PF{Port: "enp2s0f4", PCI: PCIAddr{Bus: 2}}
	for primary, want := range map[string][2]bool{ // of pf and split
		"": {true, true}, "enp1s0": {true, false}, "0000:01:00.0": {true, false},
		"enp2s0f4": {false, true}, "0000:02:00.0": {false, true}, "enp9s0": {false, false},
		"uplink": {true, false},
	} {
		b := Bond{Primary: primary}
		if got := [2]bool{b.PrefersPF(pf), b.PrefersPF(split)}; got != want {
			t.Errorf("primary %q: %v, want %v", primary, got, want)
		}
	}
}

// The members of the largest bond with the longest name have different names, which the kernel
// takes (IFNAMSIZ of uapi linux/if.h).
func TestMemberNames(t *testing.T) {
	if a, b := MemberName("net1", 0), MemberName("net1", 1); a != "net1a" || b != "net1b" {
		t.Errorf("%s and %s", a, b)
	}
	const longest = 15
	seen := map[string]bool{}
	for i := range MaxLinks {
		name := MemberName(strings.Repeat("n", LongestBondName), i)
		if len(name) > longest || seen[name] {
			t.Errorf("member %d is %s", i, name)
		}
		seen[name] = true
	}
}
