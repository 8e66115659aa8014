package kernel

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

// I7: one broken device never hides the others. The netdevices of the tree are not on this machine,
// so they count as broken too.
func TestBrokenDevicesHideNone(t *testing.T) {
	k := New(Options{SysRoot: treeOf(t, "host.txtar").root})
	pfs, err := k.PFs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, pf := range pfs {
		got = append(got, fmt.Sprintf("%s %s/%s %d of %d VFs, read %d", pf.PCI, pf.Vendor, pf.Device, pf.NumVFs, pf.TotalVFs, len(pf.VFs)))
		if pf.Err == "" {
			t.Errorf("PF %s has no error", pf.PCI)
		}
	}
	want := []string{
		"0000:01:00.0 8086/10c9 2 of 7 VFs, read 2",
		"0000:02:00.0 15b3/1019 0 of 8 VFs, read 0",
		"0000:05:00.0 15b3/101d 1 of 8 VFs, read 1",
		"0000:06:00.0 8086/1572 0 of 0 VFs, read 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("PFs (-want +got):\n%s", diff)
	}
	if !strings.Contains(pfs[1].Err, "no driver is bound") {
		t.Errorf("the PF without a driver says %q", pfs[1].Err)
	}
	if _, err := k.PF(t.Context(), pciAddr(t, "03:00.0")); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("a NIC without SR-IOV: %v", err)
	}
}

// A PF has the alternative names of its netdevice.
func TestAltNamesOfPF(t *testing.T) {
	body := make([]byte, unix.SizeofIfInfomsg)
	body[4] = 2
	body = rtnl.AppendString(body, unix.IFLA_IFNAME, "enp1s0")
	body = rtnl.AppendAttr(body, unix.IFLA_PERM_ADDRESS, []byte{2, 0, 0, 0, 0, 1})
	l, err := rtnl.ParseLink(rtnl.AppendNested(body, unix.IFLA_PROP_LIST, rtnl.AppendString(nil, unix.IFLA_ALT_IFNAME, "uplink")))
	if err != nil {
		t.Fatal(err)
	}
	k := New(Options{SysRoot: treeOf(t, "host.txtar").root})
	k.see = func(_ string, fn func(reader) error) error { return fn(told{l}) }
	pf, err := k.PF(t.Context(), pciAddr(t, "01:00.0"))
	if diff := cmp.Diff([]string{"enp1s0", "uplink"}, pf.Names()); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestAbilitiesRead(t *testing.T) {
	for _, tt := range []struct {
		name string
		vfs  map[int]vf.Admin
		want vf.Abilities
	}{
		{"no VFs tell nothing", nil, vf.Abilities{}},
		{"igb", map[int]vf.Admin{0: {SpoofChk: vf.Yes, Trust: vf.No}}, vf.Abilities{vf.SetRSSQuery: vf.No}},
		{"cxgb4", map[int]vf.Admin{0: {}}, vf.Abilities{vf.SetRSSQuery: vf.No, vf.SetSpoofChk: vf.No, vf.SetTrust: vf.No}},
	} {
		if diff := cmp.Diff(tt.want, abilitiesRead(tt.vfs)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestAsk(t *testing.T) {
	refuse := func(errs map[string]error) func(rtnl.VFSetting) error {
		return func(s rtnl.VFSetting) error { return errs[s.String()] }
	}
	all := vf.Admin{SpoofChk: vf.Yes, Trust: vf.No, RSSQuery: vf.No}
	for _, tt := range []struct {
		name  string
		admin vf.Admin
		errs  map[string]error
		want  vf.Abilities
		fails bool
	}{
		{"takes everything", all, nil, vf.Abilities{
			vf.SetSpoofChk: vf.Yes, vf.SetTrust: vf.Yes, vf.SetRSSQuery: vf.Yes, vf.SetLinkState: vf.Yes,
			vf.SetMaxTxRate: vf.Yes, vf.SetVLAN: vf.Yes, vf.SetVLANProto: vf.Yes,
		}, false},
		{"lacks rates and 802.1ad, link down for nothing else", vf.Admin{SpoofChk: vf.Yes}, map[string]error{
			"rate": unix.EOPNOTSUPP, "vlan list": unix.EPROTONOSUPPORT, "link_state": unix.EINVAL,
		}, vf.Abilities{
			vf.SetSpoofChk: vf.Yes, vf.SetTrust: vf.No, vf.SetRSSQuery: vf.No, vf.SetMaxTxRate: vf.No,
			vf.SetMinTxRate: vf.No, vf.SetVLAN: vf.Yes, vf.SetVLANProto: vf.No,
		}, false},
		{"a VLAN is set: its protocol is not tried", vf.Admin{VLAN: vf.VLAN{ID: 5}}, nil, vf.Abilities{
			vf.SetSpoofChk: vf.No, vf.SetTrust: vf.No, vf.SetRSSQuery: vf.No, vf.SetLinkState: vf.Yes,
			vf.SetMaxTxRate: vf.Yes, vf.SetVLAN: vf.Yes,
		}, false},
		{"may not", vf.Admin{}, map[string]error{"rate": unix.EPERM}, vf.Abilities{
			vf.SetSpoofChk: vf.No, vf.SetTrust: vf.No, vf.SetRSSQuery: vf.No, vf.SetLinkState: vf.Yes,
			vf.SetVLAN: vf.Yes, vf.SetVLANProto: vf.Yes,
		}, true},
	} {
		got, err := askDriver(refuse(tt.errs), 0, tt.admin, vf.Driver{})
		if diff := cmp.Diff(tt.want, got); diff != "" || (err != nil) != tt.fails {
			t.Errorf("%s (-want +got):\n%s\n%v", tt.name, diff, err)
		}
	}
}

// otx2_do_set_vf_vlan unlocks a mutex that it has not locked if no VLAN is set where there is none.
// So Culvert must not ask that driver by such a write.
func TestAskWritesNoVLANWhereThatBreaksTheDriver(t *testing.T) {
	for _, tt := range []struct {
		admin vf.Admin
		want  vf.Tri
	}{
		{vf.Admin{}, vf.Unknown},
		{vf.Admin{VLAN: vf.VLAN{ID: 5}}, vf.Yes},
	} {
		got, err := askDriver(func(s rtnl.VFSetting) error {
			if s.String() == rtnl.VFVLAN(0, vf.VLAN{}).String() && tt.want == vf.Unknown {
				t.Errorf("wrote %s", s)
			}
			return nil
		}, 0, tt.admin, vf.DriverOf("rvu_nicpf"))
		if err != nil || got[vf.SetVLAN] != tt.want {
			t.Errorf("%+v: %v, %v", tt.admin, got, err)
		}
	}
}

// Culvert takes the number of a PF's carrier losses from the kernel's count.
func TestCarrierLosses(t *testing.T) {
	k, pf := &Kernel{sys: tree{t.TempDir()}}, vf.PF{}
	k.takeLink(&pf, vf.PCIAddr{Bus: 1}, rtnl.Link{Name: "enp1s0", Up: true, MTU: 1500, Downs: 3})
	if pf.CarrierLosses != 3 || !pf.Up || pf.Carrier {
		t.Errorf("%+v", pf)
	}
}
