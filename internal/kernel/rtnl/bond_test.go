package rtnl

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

func TestBond(t *testing.T) {
	targets := []netip.Addr{netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.1.0.254")}
	for _, tt := range []struct {
		name string
		give vf.Bond
		want Bond
	}{
		{"carrier", vf.Bond{Mode: vf.BondActiveBackup}, Bond{Mode: 1, FailOverMAC: 1, Miimon: 100}},
		{"ARP in place of the carrier", vf.Bond{Mode: vf.BondActiveBackup, ARPInterval: 50, ARPTargets: targets, ARPMissedMax: 1}, Bond{Mode: 1, FailOverMAC: 1, ARPInterval: 50, ARPTargets: targets, MissedMax: 1}},
		{"another mode has no fail_over_mac", vf.Bond{Mode: "802.3ad"}, Bond{Mode: 4, Miimon: 100}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// A message to the kernel and its answer have the same attributes.
			l, err := ParseLink(encodeBond("net1", 0x63750001, 1400, tt.give))
			if err != nil || l.Bond == nil || l.Kind != vf.MasterBond || l.Name != "net1" || l.Group != 0x63750001 || l.MTU != 1400 {
				t.Fatalf("%+v, %v", l, err)
			}
			if diff := cmp.Diff(tt.want, *l.Bond, byValue); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestBondState(t *testing.T) {
	b := Bond{Mode: 1, FailOverMAC: 1, ARPInterval: 50, MissedMax: 2, Active: 7, Primary: 8}
	want := vf.BondState{Mode: vf.BondActiveBackup, FailOverMAC: true, ARPInterval: 50, ARPMissedMax: 2, Active: true}
	if diff := cmp.Diff(want, b.State(7)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if s := b.State(8); s.Active || !s.Primary {
		t.Errorf("%+v", s)
	}
}

func TestLinkInfoOfOthers(t *testing.T) {
	vlan := AppendString(nil, unix.IFLA_INFO_KIND, "vlan")
	if kind, b, err := parseLinkInfo(AppendNested(vlan, unix.IFLA_INFO_DATA, []byte{1})); kind != "vlan" || b != nil || err != nil {
		t.Errorf("a VLAN: %q %+v, %v", kind, b, err)
	}
	bridge := AppendNested(linkHeader(9, 0, 0), unix.IFLA_LINKINFO, AppendString(nil, unix.IFLA_INFO_KIND, vf.MasterBridge))
	if l, err := ParseLink(bridge); l.Kind != vf.MasterBridge || l.Bond != nil || err != nil {
		t.Errorf("a bridge: %+v, %v", l, err)
	}
	bond := AppendString(nil, unix.IFLA_INFO_KIND, vf.MasterBond)
	for name, data := range map[string][]byte{
		"cut":          {9, 0, 1, 0, 1},
		"short target": AppendNested(nil, unix.IFLA_BOND_ARP_IP_TARGET, AppendAttr(nil, 0, []byte{10, 1})),
	} {
		if _, b, err := parseLinkInfo(AppendNested(bond, unix.IFLA_INFO_DATA, data)); err == nil {
			t.Errorf("%s: read as %+v", name, b)
		}
	}
}

// Link has fields for the master and the alias. Nevertheless, both are among the attributes that an
// owner changes.
func TestMasterIsAnAttribute(t *testing.T) {
	b := AppendUint32(linkHeader(7, 0, 0), unix.IFLA_MASTER, 9)
	l, err := ParseLink(AppendString(b, unix.IFLA_IFALIAS, "mine"))
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Attributes(); l.Master != 9 || l.Alias != "mine" || got["master"] != "9" || got["ifalias"] != `"mine"` {
		t.Errorf("master %d, alias %q, attributes %v", l.Master, l.Alias, got)
	}
}

// A bond names its members by their indices, none of which is 0. An attribute that is too short to
// have a value has none.
func TestMembersOfABond(t *testing.T) {
	bond := func(data []byte) []byte {
		info := AppendString(nil, unix.IFLA_INFO_KIND, vf.MasterBond)
		return AppendNested(info, unix.IFLA_INFO_DATA, data)
	}
	active := AppendUint32(nil, unix.IFLA_BOND_ACTIVE_SLAVE, 7)
	primary := AppendUint32(nil, unix.IFLA_BOND_PRIMARY, 8)
	cut := AppendAttr(nil, unix.IFLA_BOND_ACTIVE_SLAVE, []byte{7})
	for name, tt := range map[string]struct {
		data []byte
		want Bond
	}{
		"both":           {slices.Concat(active, primary), Bond{Active: 7, Primary: 8}},
		"none works":     {primary, Bond{Primary: 8}},
		"none preferred": {active, Bond{Active: 7}},
		"cut values":     {AppendAttr(cut, unix.IFLA_BOND_MODE, nil), Bond{}},
		"unknown":        {AppendUint32(nil, 200, 9), Bond{}},
	} {
		_, got, err := parseLinkInfo(bond(tt.data))
		if err != nil || got == nil || cmp.Diff(tt.want, *got, byValue) != "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
