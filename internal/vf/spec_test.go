package vf

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// attached returns a VF as it is in the netns "pod" after attachSpec was applied to it, and
// the baseline it had before.
func attached() (Baseline, State) {
	b := BaselineOf(dirty())
	s := dirty()
	s.Admin.Trust = Yes
	s.Admin.MaxTxRate = 100
	s.Link = &Link{
		Name: "net1", Netns: "pod", MAC: b.LinkMAC, MTU: 9000, Up: true,
		Addrs:  []netip.Prefix{netip.MustParsePrefix("10.1.0.5/24")},
		Routes: []Route{{Dst: netip.MustParsePrefix("10.2.0.0/16"), Gateway: netip.MustParseAddr("10.1.0.1"), Priority: 100}},
	}
	return b, s
}

func attachSpec() Spec {
	return Spec{
		Trust: pointer(true), MaxTxRate: pointer(uint32(100)), MTU: pointer(9000), Interface: "net1",
		Addresses: []Address{{Prefix: netip.MustParsePrefix("10.1.0.5/24")}},
		Routes:    []Route{{Dst: netip.MustParsePrefix("10.2.0.9/16"), Gateway: netip.MustParseAddr("10.1.0.1")}},
	}
}

func TestSpecDiff(t *testing.T) {
	for name, c := range map[string]struct {
		spec func(*Spec)
		seen func(*State)
		want []Difference
	}{
		"as asked":        {want: nil},
		"rate":            {seen: func(s *State) { s.Admin.MaxTxRate = 50 }, want: []Difference{{"max_tx_rate", "100", "50"}}},
		"driver":          {seen: func(s *State) { s.Driver = "vfio-pci" }, want: []Difference{{"driver", "igbvf", "vfio-pci"}}},
		"link is away":    {seen: func(s *State) { s.Link = nil }, want: []Difference{{"interface", "net1", ""}}},
		"other netns":     {seen: func(s *State) { s.Link.Netns = "" }, want: []Difference{{"netns", "pod", ""}}},
		"other MAC":       {spec: func(s *Spec) { s.MAC = &MAC{4} }, want: []Difference{{"mac", "04:00:00:00:00:00", "02:00:00:00:00:00"}, {"link mac", "04:00:00:00:00:00", "02:00:00:00:00:00"}}},
		"down":            {seen: func(s *State) { s.Link.Up = false }, want: []Difference{{"up", "true", "false"}}},
		"address is gone": {seen: func(s *State) { s.Link.Addrs = nil }, want: []Difference{{"address", "10.1.0.5/24", "[]"}}},
		"route is gone":   {seen: func(s *State) { s.Link.Routes = nil }, want: []Difference{{"route", "10.2.0.9/16 via 10.1.0.1", "[]"}}},
		"route in another table": {
			spec: func(s *Spec) { s.Routes[0].Table = 7 },
			want: []Difference{{"route", "10.2.0.9/16 via 10.1.0.1 table 7", "[10.2.0.0/16 via 10.1.0.1]"}},
		},
		"vfio-pci looks at no link": {
			spec: func(s *Spec) { s.Driver = DriverVFIO },
			seen: func(s *State) { s.Driver, s.Link = DriverVFIO, nil },
		},
		"vfio-pci is not bound": {
			spec: func(s *Spec) { s.Driver = DriverVFIO },
			want: []Difference{{"driver", DriverVFIO, "igbvf"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, seen := attached()
			spec := attachSpec()
			if c.spec != nil {
				c.spec(&spec)
			}
			if c.seen != nil {
				c.seen(&seen)
			}
			if d := cmp.Diff(c.want, spec.Diff(b, "pod", seen)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestSpecLeavesUnsetFieldsAlone(t *testing.T) {
	base := Admin{MAC: MAC{2}, SpoofChk: Yes, Trust: No, LinkState: LinkEnable, MaxTxRate: 10}
	if have := (Spec{}).Over(base); have != base {
		t.Errorf("an empty Spec changes %+v to %+v", base, have)
	}
	want := base
	want.SpoofChk, want.MinTxRate = No, 5
	if have := (Spec{SpoofChk: pointer(false), MinTxRate: pointer(uint32(5))}).Over(base); have != want {
		t.Errorf("Over gives %+v, not %+v", have, want)
	}
}

func TestDifferencesForReaders(t *testing.T) {
	have := Differences([]Difference{{"mtu", "1500", "9000"}, {"netdevice", "", "net1"}, {"driver", "igbvf", ""}})
	if want := "mtu is 9000, not 1500; netdevice is net1, not none; driver is none, not igbvf"; have != want {
		t.Errorf("%q, not %q", have, want)
	}
}

func TestOrder(t *testing.T) {
	addrs := []string{"0000:00:00.1", "0000:00:01.0", "0000:01:00.0", "0001:00:00.0"}
	var parsed []PCIAddr
	for _, a := range slices.Backward(addrs) {
		p, err := ParsePCIAddr(a)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, p)
	}
	slices.SortFunc(parsed, PCIAddr.Compare)
	for i, p := range parsed {
		if p.String() != addrs[i] {
			t.Errorf("address %d is %s, not %s", i, p, addrs[i])
		}
	}
	ids := []ID{{PFID{MAC: MAC{1}}, 7}, {PFID{MAC: MAC{2}, Port: "p0"}, 1}, {PFID{MAC: MAC{2}, Port: "p1"}, 0}, {PFID{MAC: MAC{2}, Port: "p1"}, 2}}
	shuffled := []ID{ids[2], ids[0], ids[3], ids[1]}
	slices.SortFunc(shuffled, ID.Compare)
	if !slices.Equal(ids, shuffled) {
		t.Errorf("sorted: %v", shuffled)
	}
}

func TestParseUnicastMAC(t *testing.T) {
	if m, err := ParseUnicastMAC("02:00:5e:10:00:01"); err != nil || m != (MAC{2, 0, 0x5e, 0x10, 0, 1}) {
		t.Errorf("%v, %v", m, err)
	}
	for in, want := range map[string]string{
		"01:00:5e:00:00:01": `MAC address "01:00:5e:00:00:01": want a unicast address: not zero, and the first byte even`,
		"00:00:00:00:00:00": `MAC address "00:00:00:00:00:00": want a unicast address: not zero, and the first byte even`,
		"02:00":             `MAC address "02:00": want six bytes in hexadecimal, e.g. 02:00:5e:10:00:01`,
	} {
		if _, err := ParseUnicastMAC(in); err == nil || err.Error() != want {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func TestWordsOfUsers(t *testing.T) {
	for want, have := range map[string]string{
		"given by the kubelet to pod default/a": Use{Pod: "default/a", By: Process{PID: 1, Name: "x"}}.String(),
		"open by testpmd (process 4711)":        Use{By: Process{PID: 4711, Name: "testpmd"}}.String(),
		"container 3f2a9c41d0b7":                Owner{Kind: OwnerContainer, UID: "3f2a9c41d0b7aaaa"}.String(),
		"pod default/a":                         Owner{Kind: OwnerPod, UID: "3f2a", Name: "default/a"}.String(),
		"vlan-qos":                              setVLANQoS.Flag(),
		"vlan-proto":                            SetVLANProto.Flag(),
		"link-state":                            SetLinkState.Flag(),
		"0000:3b:00.0":                          PF{PCI: PCIAddr{Bus: 0x3b}}.Label(),
		"enp59s0f0":                             PF{PCI: PCIAddr{Bus: 0x3b}, Name: "enp59s0f0"}.Label(),
	} {
		if have != want {
			t.Errorf("%q, not %q", have, want)
		}
	}
	if (Owner{}).IsZero() != true || (Owner{Kind: OwnerHost}).IsZero() {
		t.Error("IsZero is wrong")
	}
}

func TestVFByIndex(t *testing.T) {
	pf := PF{VFs: []State{{ID: ID{Index: 0}}, {ID: ID{Index: 3}, Driver: "igbvf"}}}
	if v, ok := pf.VF(3); !ok || v.Driver != "igbvf" {
		t.Errorf("VF(3) gives %+v, %v", v, ok)
	}
	if v, ok := pf.VF(1); ok {
		t.Errorf("VF(1) gives %+v", v)
	}
}

func pointer[T any](v T) *T { return &v }
