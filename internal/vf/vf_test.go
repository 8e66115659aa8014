package vf

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestParsePCIAddr(t *testing.T) {
	for in, want := range map[string]string{
		"0000:3b:00.1": "0000:3b:00.1", "3b:00.1": "0000:3b:00.1", "10000:e1:1f.7": "10000:e1:1f.7", "ABCD:EF:0a.0": "abcd:ef:0a.0",
	} {
		if got, err := ParsePCIAddr(in); err != nil || got.String() != want {
			t.Errorf("%q: %s, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "eth0", "3b:00", "0000:3b:00", "0000:3b:00.8", "0000:3b:20.0", "0000:100:00.0", "0:3b:00.1", "0000:3b:00.1.1", "::."} {
		if got, err := ParsePCIAddr(in); err == nil || !strings.Contains(err.Error(), "want domain:bus:device.function") {
			t.Errorf("%q: %s, %v", in, got, err)
		}
	}
}

// P1: the MAC of a VF follows from its PF's identity and its index and from
// nothing else. The literal is a promise: leases and neighbours' caches outlive
// an upgrade.
func TestMACOfLinkLocal(t *testing.T) {
	m := MAC{0x02, 0x11, 0x22, 0x33, 0x44, 0x01}
	if got := m.LinkLocal().String(); got != "fe80::11:22ff:fe33:4401" {
		t.Errorf("the address is %s", got)
	}
	for text, want := range map[string]bool{
		"fe80::11:22ff:fe33:4401": true, "fe80::1": false, "fe80:1::11:22ff:fe33:4401": false, "fd00::11:22ff:fe33:4401": false, "fe80::11:2200:fe33:4401": false, "10.0.0.1": false,
	} {
		if got, is := MACOfLinkLocal(netip.MustParseAddr(text)); is != want || is && got != m {
			t.Errorf("%s: %s, %t", text, got, is)
		}
	}
}

func TestStableMAC(t *testing.T) {
	pf := PFID{MAC: MAC{0x90, 0xe2, 0xba, 0, 0, 1}}
	if got := StableMAC(pf, 3).String(); got != "9a:ac:3f:10:97:03" {
		t.Errorf("VF 3 got %s", got)
	}
	seen := map[MAC]string{}
	for port := range 4 {
		for i := range 300 {
			id := ID{PFID{pf.MAC, fmt.Sprint("p", port)}, i}
			m := StableMAC(id.PF, i)
			if !m.IsUnicast() || m[0]&2 == 0 {
				t.Fatalf("%s is not a locally administered unicast address", m)
			}
			if other, ok := seen[m]; ok {
				t.Errorf("%s and %s share %s", id, other, m)
			}
			seen[m] = id.String()
		}
	}
}

func dirty() State {
	return State{
		Driver: "igbvf",
		Admin:  Admin{MAC: MAC{2}, SpoofChk: Yes, Trust: No},
		Link:   &Link{Name: "v0", MAC: MAC{2}, MTU: 1500, Attributes: "altnames \ngroup 0\n"},
	}
}

// I2 as a property: any attribute that differs is a Difference. Every field of
// Admin, Baseline and Link is changed in turn, so a field that is added and not
// compared fails here.
func TestI2EveryAttributeIsCompared(t *testing.T) {
	base := BaselineOf(dirty())
	if d := base.Diff(dirty()); len(d) != 0 {
		t.Fatalf("a clean VF differs: %s", Differences(d))
	}
	irrelevant := map[string]bool{"Index": true, "Carrier": true, "Routes": true, "MoreRoutes": true, "RSSQuery": true, // RSSQuery: unknown at the baseline
		"Tentative": true, "Duplicates": true, // among Addrs, of which a clean VF has none
		"Guard": true, "Traffic": true}
	for _, part := range []func(*State) reflect.Value{
		func(s *State) reflect.Value { return reflect.ValueOf(&s.Admin).Elem() },
		func(s *State) reflect.Value { return reflect.ValueOf(s.Link).Elem() },
	} {
		s := dirty()
		for i := range part(&s).NumField() {
			s := dirty()
			field := part(&s).Type().Field(i).Name
			change(part(&s).Field(i))
			if d := base.Diff(s); len(d) == 0 && !irrelevant[field] {
				t.Errorf("a change of %s goes unnoticed", field)
			}
		}
	}
	for name, s := range map[string]State{"driver": {Admin: dirty().Admin, Link: dirty().Link}, "netdevice": {Admin: dirty().Admin, Driver: "igbvf"}} {
		if len(base.Diff(s)) == 0 {
			t.Errorf("a missing %s goes unnoticed", name)
		}
	}
}

// change changes a value to a different one.
func change(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *MAC:
		x[5]++
	case *VLAN:
		x.ID++
	case *Tri:
		*x = Tri(3 - uint8(*x))
	case *[]netip.Prefix:
		*x = append(*x, netip.MustParsePrefix("10.0.0.1/8"))
	case **Guard:
		*x = &Guard{}
	case *Attributes:
		*x = "altnames \"eth0\"\ngroup 0\n"
	case *Traffic:
		x.RxBytes++
	case **BondState:
		*x = &BondState{Link: Link{Name: "bond0"}}
	case *[]Route:
		*x = append(*x, Route{})
	default:
		switch v.Kind() {
		case reflect.String:
			v.SetString(v.String() + "x")
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Int:
			v.SetInt(v.Int() + 1)
		case reflect.Uint8, reflect.Uint32:
			v.SetUint(v.Uint() + 1)
		default:
			panic("how is a " + v.Type().String() + " changed?")
		}
	}
}

func TestVLANSame(t *testing.T) {
	for _, tc := range []struct {
		a, b VLAN
		same bool
	}{
		{VLAN{}, VLAN{Proto: Dot1Q}, true},
		{VLAN{}, VLAN{Proto: Dot1AD}, true},
		{VLAN{ID: 5}, VLAN{ID: 5, Proto: Dot1Q}, true},
		{VLAN{ID: 5}, VLAN{ID: 5, Proto: Dot1AD}, false},
		{VLAN{ID: 5}, VLAN{ID: 5, QoS: 1}, false},
		{VLAN{ID: 5}, VLAN{ID: 6}, false},
	} {
		if tc.a.Same(tc.b) != tc.same || tc.b.Same(tc.a) != tc.same {
			t.Errorf("%s and %s: want same %t", tc.a, tc.b, tc.same)
		}
	}
}

// A value that is written to the ledger and read back is the same.
func TestTextForms(t *testing.T) {
	type all struct {
		PCI   PCIAddr
		MAC   MAC
		ID    ID
		Tri   Tri
		Proto VLANProto
		Link  LinkState
	}
	want := all{PCIAddr{1, 2, 3, 4}, MAC{2, 3, 4, 5, 6, 7}, ID{PFID{MAC{8, 9, 1, 1, 1, 1}, "p0"}, 12}, Yes, Dot1AD, LinkDisable}
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got all
	if err := json.Unmarshal(raw, &got); err != nil || got != want {
		t.Errorf("%s became %+v, %v", raw, got, err)
	}
}

// I7: a PF whose driver reports no identity is in the status with its VFs, and readers of the
// status can parse that identity.
func TestI7UnknownIdentityReadsBack(t *testing.T) {
	want := PF{VFs: []State{{ID: ID{Index: 3}}}}
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got PF
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if !got.ID.IsZero() || got.VFs[0].ID != want.VFs[0].ID {
		t.Errorf("%s reads %+v", raw, got)
	}
}

// The text of an address is the one that fmt.Sprintf makes.
func TestPCIAddrString(t *testing.T) {
	for _, a := range []PCIAddr{
		{Bus: 1}, {Domain: 0x10000, Bus: 0xe1, Device: 0x1f, Function: 7}, {Domain: 0xfedc, Bus: 0xa9, Device: 0x10, Function: 1}, {Function: 1},
	} {
		want := fmt.Sprintf("%04x:%02x:%02x.%x", a.Domain, a.Bus, a.Device, a.Function)
		if got := a.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// I2: each switch has its own field in Admin, and in Spec if a network may set it, so
// that requested switches are compared.
func TestSwitches(t *testing.T) {
	var a Admin
	var s Spec
	on := true
	var wanted []Setting
	for _, name := range Switches() {
		if *a.Switch(name) != Unknown {
			t.Errorf("%s has the place of another switch", name)
		}
		*a.Switch(name) = No
		if to := s.Switch(name); to != nil {
			*to = &on
			wanted = append(wanted, name)
		}
	}
	if got := s.Abilities(); !slices.Equal(got, wanted) || !slices.Equal(got, []Setting{SetSpoofChk, SetTrust}) {
		t.Errorf("a Spec asks for %v, and has %v", got, wanted)
	}
	over := s.Over(a)
	for _, name := range Switches() {
		if want := TriOf(slices.Contains(wanted, name)); *over.Switch(name) != want {
			t.Errorf("%s is %s, want %s", name, *over.Switch(name), want)
		}
	}
	for _, name := range Settings() {
		if !slices.Contains(Switches(), name) && (a.Switch(name) != nil || s.Switch(name) != nil) {
			t.Errorf("%s is no switch", name)
		}
	}
}

func TestCountText(t *testing.T) {
	for n, want := range map[int]string{0: "0 VFs", 1: "1 VF", 7: "7 VFs"} {
		if got := CountText(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// The link of a PF is a problem for its VFs while it is down, has no carrier or flaps. A PF whose
// netdevice was not read has no known problem.
func TestLinkProblem(t *testing.T) {
	for _, tt := range []struct {
		pf   PF
		want string
	}{
		{PF{Name: "p0", Up: true, Carrier: true}, ""},
		{PF{Name: "p0", Up: true}, "PF p0 has no link"},
		{PF{Name: "p0"}, "PF p0 is down"},
		{PF{Name: "p0", Up: true, Carrier: true, Flapping: true}, "PF p0: " + DescribeFlapping()},
		{PF{Name: "mgmtpf0,0", Port: "p4", Up: true}, "PF p4 has no link"},
		{PF{Port: "p4", Up: true, Carrier: true}, ""},
		{PF{PCI: PCIAddr{Bus: 1}}, ""},
	} {
		if got := tt.pf.LinkProblem(); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.pf, got, tt.want)
		}
	}
}

// I2: a VF that was made for vfio-pci has no interface. If it has one, that is a difference.
func TestI2InterfaceOfAVFWithoutOne(t *testing.T) {
	s := State{Driver: DriverVFIO}
	b := BaselineOf(s)
	if d := b.Diff(s); len(d) != 0 {
		t.Errorf("as it was made: %s", Differences(d))
	}
	s.Link = &Link{Name: "v0"}
	if got := Differences(b.Diff(s)); got != "netdevice is v0, not none" {
		t.Errorf("with an interface: %s", got)
	}
}

// I2: a setting that the PF's driver cannot change is no difference. If the driver can change it,
// or if that is unknown, it is one.
func TestI2SettingThatCannotChange(t *testing.T) {
	made := State{Driver: "bnx2x", Admin: Admin{MAC: MAC{2}, MaxTxRate: 10000}}
	b := BaselineOf(made)
	for can, want := range map[Tri]string{
		No: "", Unknown: "max_tx_rate is 0, not 10000", Yes: "max_tx_rate is 0, not 10000",
	} {
		now := made
		now.Admin.MaxTxRate = 0
		now.Can = Abilities{SetMaxTxRate: can}
		if got := Differences(b.Diff(now)); got != want {
			t.Errorf("the driver can change it: %s: %q, want %q", can, got, want)
		}
	}
	now := made
	now.Admin.MAC, now.Can = MAC{4}, Abilities{SetMAC: No, SetMaxTxRate: Yes}
	if got := now.Settle(b.Admin); got != now.Admin {
		t.Errorf("a MAC address that stays: %+v", got)
	}
}
