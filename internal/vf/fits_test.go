package vf

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestValidate(t *testing.T) {
	ptr := func(n uint32) *uint32 { return &n }
	mtu := func(n int) *int { return &n }
	for want, s := range map[string]Spec{
		"": {MAC: &MAC{2}, VLAN: &VLAN{ID: MaxVLAN, QoS: MaxQoS, Proto: Dot1AD}, MinTxRate: ptr(5), MaxTxRate: ptr(5), MTU: mtu(MinMTU)},
		"mac 01:00:5e:00:00:01: invalid: want a unicast address: not zero, and the first byte even": {MAC: &MAC{1, 0, 0x5e, 0, 0, 1}},
		"mac 00:00:00:00:00:00: invalid: want a unicast address: not zero, and the first byte even": {MAC: &MAC{}},
		"vlan 4095: invalid: want 1 to 4094":                                       {VLAN: &VLAN{ID: 4095}},
		"vlanQoS 8: invalid: want 0 to 7":                                          {VLAN: &VLAN{ID: 1, QoS: 8}},
		"vlanQoS 3: invalid: needs a vlan between 1 and 4094":                      {VLAN: &VLAN{QoS: 3}},
		"vlanProto 802.1ad: invalid: needs a vlan between 1 and 4094":              {VLAN: &VLAN{Proto: Dot1AD}},
		"min_tx_rate 6: invalid: want at most the maximum, 5 Mb/s":                 {MinTxRate: ptr(6), MaxTxRate: ptr(5)},
		"mtu 67: invalid: want 68 to 65535":                                        {MTU: mtu(67)},
		"vlan 5000: invalid: want 1 to 4094\nmtu 70000: invalid: want 68 to 65535": {VLAN: &VLAN{ID: 5000}, MTU: mtu(70000)},
	} {
		got := ""
		if err := s.Validate(); err != nil {
			got = err.Error()
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%v is not ErrInvalid", err)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	if err := (Spec{VLAN: &VLAN{}, MinTxRate: ptr(6), MaxTxRate: ptr(0)}).Validate(); err != nil {
		t.Error("no VLAN, and a minimum under no limit:", err)
	}
}

// Fits refuses a setting once if the kernel reports that the driver lacks it. The error lists the
// settings that the driver has. Fits also refuses a setting if the kernel was not asked and the
// table of drivers says that the driver lacks it.
func TestFits(t *testing.T) {
	ptr := func(n uint32) *uint32 { return &n }
	mtu, on, off, auto, enable := 9000, true, false, LinkAuto, LinkEnable
	known := Abilities{SetMAC: Yes, SetVLAN: Yes, SetMinTxRate: No, SetTrust: No}
	for _, tt := range []struct {
		abilities Abilities
		spec      Spec
		is        error
		want      string
	}{
		{known, Spec{Trust: &on}, ErrUnable, "trust: not supported by the driver: PF p0 (driver igb) can set mac, vlan"},
		{Abilities{SetTrust: No}, Spec{Trust: &on}, ErrUnable, "trust: not supported by the driver: PF p0 (driver igb) has no such setting"},
		{known, Spec{MinTxRate: ptr(10)}, ErrUnable, "min_tx_rate: not supported by the driver: PF p0 (driver igb) can set mac, vlan"},
		{nil, Spec{MinTxRate: ptr(10)}, ErrUnable, "min_tx_rate 10: not supported by the driver: PF p0 (driver igb) has no min_tx_rate: leave it out"},
		{nil, Spec{MTU: &mtu}, ErrInvalid, "mtu 9000: invalid: PF p0 has MTU 1500: raise its mtu in NodePolicy a, pfs[0] or ask for at most 1500"},
		{nil, Spec{MAC: &MAC{1}}, ErrInvalid, "mac 01:00:00:00:00:00: invalid: want a unicast address: not zero, and the first byte even"},
		{nil, Spec{Trust: &on, MaxTxRate: ptr(100)}, nil, ""},
		{Abilities{SetTrust: No, SetVLAN: No, SetLinkState: No}, Spec{Trust: &off, VLAN: &VLAN{}, LinkState: &auto}, nil, ""},
		{Abilities{SetLinkState: No}, Spec{LinkState: &enable}, ErrUnable, "link_state: not supported by the driver: PF p0 (driver igb) has no such setting"},
	} {
		err := PF{Name: "p0", Driver: "igb", SpeedMbps: 1000, Carrier: true, MTU: 1500, Abilities: tt.abilities}.Fits(tt.spec, Admin{}, "NodePolicy a, pfs[0]")
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tt.want || !errors.Is(err, tt.is) {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
