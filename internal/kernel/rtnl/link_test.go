package rtnl

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// igb3VFs returns the answer of Linux 6.12 about an igb PF with three VFs. VF 1 has trust and VLAN
// 100 qos 3, and VF 2 has a MAC and no spoof checking.
func igb3VFs(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/igb-3vfs.hex")
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseLink(t *testing.T) {
	mac := vf.MAC{0x52, 0x54, 0, 0xc1, 1, 1}
	want := Link{
		Index: 2, Name: "eth0", MAC: mac, PermMAC: mac, MTU: 1500, MaxMTU: 9216, Parent: "0000:01:00.0", Up: true, Downs: 1, NumVFs: 3,
		VFs: map[int]vf.Admin{
			0: {SpoofChk: vf.Yes, Trust: vf.No},
			1: {SpoofChk: vf.Yes, Trust: vf.Yes, VLAN: vf.VLAN{ID: 100, QoS: 3, Proto: vf.Dot1Q}},
			2: {SpoofChk: vf.No, Trust: vf.No, MAC: vf.MAC{2, 0, 0x5e, 0x10, 0, 1}},
		},
	}
	got, err := ParseLink(igb3VFs(t))
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Link{})); diff != "" || err != nil {
		t.Errorf("(-want +got):\n%s\n%v", diff, err)
	}
}

// I2: the attributes of a link have everything that an owner may set, as short text. They have
// nothing that the kernel changes by itself.
func TestI2AttributesOfLink(t *testing.T) {
	body := func(flags uint32, attrs ...[]byte) []byte {
		return append(linkHeader(2, flags, 0), slices.Concat(attrs...)...)
	}
	names := func(all ...string) []byte {
		var b []byte
		for _, n := range all {
			b = AppendString(b, unix.IFLA_ALT_IFNAME, n)
		}
		return AppendNested(nil, unix.IFLA_PROP_LIST, b)
	}
	for name, tt := range map[string]struct {
		body             []byte
		attribute, value string
	}{
		"no flag":        {body(0), "flags", "0x0"},
		"flags":          {body(unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOWER_UP | unix.IFF_PROMISC | unix.IFF_NOARP), "flags", "0x80"},
		"no altnames":    {body(0), "altnames", ""},
		"altnames":       {body(0, names("eth1", "eth0")), "altnames", `"eth0 eth1"`},
		"many altnames":  {body(0, names(strings.Repeat("a", 100), "b")), "altnames", "sha256:7c1be426acce8982"},
		"txqlen":         {body(0, AppendUint32(nil, unix.IFLA_TXQLEN, 17)), "txqlen", "17"},
		"alias":          {body(0, AppendString(nil, unix.IFLA_IFALIAS, "mine\n")), "ifalias", "0x6d696e650a"},
		"common qdisc":   {body(0, AppendString(nil, unix.IFLA_QDISC, "mq")), "qdisc", ""},
		"uncommon qdisc": {body(0, AppendString(nil, unix.IFLA_QDISC, "tbf")), "qdisc", `"tbf"`},
		"xdp":            {body(0, AppendNested(nil, unix.IFLA_XDP, AppendAttr(nil, unix.IFLA_XDP_ATTACHED, []byte{0}))), "xdp", "0x0500020000000000"},
		"long alias":     {body(0, AppendString(nil, unix.IFLA_IFALIAS, strings.Repeat("x", 250))), "ifalias", "sha256:086d4a1c293bde31"},
	} {
		l, err := ParseLink(tt.body)
		if got := l.Attributes()[tt.attribute]; got != tt.value || err != nil {
			t.Errorf("%s: %s %s, want %s (%v)", name, tt.attribute, got, tt.value, err)
		}
	}
}

func TestAltNames(t *testing.T) {
	names := AppendNested(nil, unix.IFLA_PROP_LIST, AppendString(AppendString(nil, unix.IFLA_ALT_IFNAME, "uplink"), unix.IFLA_ALT_IFNAME, "eth7"))
	for want, body := range map[string][]byte{"": linkHeader(2, 0, 0), "eth7 uplink": append(linkHeader(2, 0, 0), names...)} {
		l, err := ParseLink(body)
		if got := strings.Join(l.AltNames(), " "); got != want || err != nil {
			t.Errorf("%q, want %q: %v", got, want, err)
		}
	}
}

// A list without all VFs is no list: the attribute's length has 16 bits.
func TestParseLinkCut(t *testing.T) {
	admin := func(index int) []byte {
		return AppendAttr(nil, iflaVFMAC, VFMAC(index, vf.MAC{}).value)
	}
	b := linkHeader(2, 0, 0)
	b = AppendUint32(b, 21, 2) // IFLA_NUM_VF
	b = AppendNested(b, 22, AppendNested(nil, iflaVFInfo, admin(0)))
	if _, err := ParseLink(b); err == nil || !strings.Contains(err.Error(), "1 of 2") {
		t.Errorf("one of two VFs: %v", err)
	}
}

func TestParseVFInfoAbsent(t *testing.T) {
	info := AppendAttr(nil, iflaVFMAC, VFMAC(4, vf.MAC{}).value)
	for _, typ := range []uint16{iflaVFSpoofChk, iflaVFTrust, iflaVFRSSQuery} {
		info = AppendAttr(info, typ, appendWords(4, absent))
	}
	info = AppendAttr(info, iflaVFRate, appendWords(4, 100, 2000))
	info = AppendAttr(info, iflaVFLinkState, appendWords(4, 2))
	info = AppendAttr(info, iflaVFVLAN, appendWords(4, 7, 0))
	got, err := ParseVFInfoList(AppendNested(nil, iflaVFInfo, info))
	want := map[int]vf.Admin{4: {
		MinTxRate: 100, MaxTxRate: 2000, LinkState: vf.LinkDisable, VLAN: vf.VLAN{ID: 7, Proto: vf.Dot1Q},
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("(-want +got):\n%s\n%v", diff, err)
	}
}

func TestVFSettings(t *testing.T) {
	for _, tt := range []struct {
		setting VFSetting
		name    string
		want    string // the attribute, in hexadecimal
	}{
		{VFSwitch(3, vf.SetSpoofChk, true), "spoofchk", "0c000400 03000000 01000000"},
		{VFSwitch(3, vf.SetTrust, false), "trust", "0c000900 03000000 00000000"},
		{VFSwitch(3, vf.SetRSSQuery, true), "rss_query", "0c000700 03000000 01000000"},
		{VFLinkState(1, vf.LinkEnable), "link_state", "0c000500 01000000 01000000"},
		{VFRate(1, 10, 200), "rate", "10000600 01000000 0a000000 c8000000"},
		{VFVLAN(2, vf.VLAN{ID: 100, QoS: 3}), "vlan", "10000200 02000000 64000000 03000000"},
		{VFVLAN(2, vf.VLAN{ID: 100, Proto: vf.Dot1AD}), "vlan list",
			"18000c80 14000100 02000000 64000000 00000000 88a80000"},
		{VFMAC(2, vf.MAC{2, 0, 0x5e, 0x10, 0, 1}), "mac", "28000100 02000000 02005e100001" + strings.Repeat("00", 26)},
	} {
		got := hex.EncodeToString(AppendAttr(nil, tt.setting.typ, tt.setting.value))
		if want := strings.ReplaceAll(tt.want, " ", ""); got != want || tt.setting.String() != tt.name {
			t.Errorf("%s is %s, want %s as %s", tt.setting, got, tt.name, want)
		}
	}
}

// A link on top of another one has the index of that one. The index is of another netns if the
// kernel says of which one (IFLA_LINK_NETNSID), also if that is number 0.
func TestLowerLink(t *testing.T) {
	on := AppendUint32(linkHeader(9, 0, 0), unix.IFLA_LINK, 7)
	in := func(netns uint32) []byte {
		return AppendUint32(slices.Clone(on), unix.IFLA_LINK_NETNSID, netns)
	}
	for name, tt := range map[string]struct {
		body  []byte
		lower int
		netns string
	}{
		"on no other":           {linkHeader(9, 0, 0), 0, "here"},
		"in this netns":         {on, 7, "here"},
		"in the netns number 0": {in(0), 7, "0"},
		"in an unknown netns":   {in(0xffffffff), 7, "-1"},
	} {
		l, err := ParseLink(tt.body)
		netns := "here"
		if l.LowerNetns != nil {
			netns = fmt.Sprint(*l.LowerNetns)
		}
		if l.Lower != tt.lower || netns != tt.netns || err != nil {
			t.Errorf("%s: on %d of netns %s, %v", name, l.Lower, netns, err)
		}
	}
}

// A program of XDP counts as attached if the kernel may have said so, so that no VF with one counts
// as free (I2).
func TestXDPAttached(t *testing.T) {
	for name, tt := range map[string]struct {
		value []byte
		want  bool
	}{
		"none":              {AppendAttr(nil, unix.IFLA_XDP_ATTACHED, []byte{0}), false},
		"in the driver":     {AppendAttr(nil, unix.IFLA_XDP_ATTACHED, []byte{1}), true},
		"cut in the value":  {AppendAttr(nil, unix.IFLA_XDP_ATTACHED, nil), true},
		"cut in the header": {[]byte{9, 0, 1, 0, 1}, true},
		"nothing of it":     {nil, false},
		"another attribute": {AppendUint32(nil, unix.IFLA_XDP_FLAGS, 1), false},
	} {
		l, err := ParseLink(AppendNested(linkHeader(2, 0, 0), unix.IFLA_XDP, tt.value))
		if l.XDP != tt.want || err != nil {
			t.Errorf("%s: %t, %v", name, l.XDP, err)
		}
	}
}

// A link that is no Ethernet has no MAC address, and a message that is cut short is no link.
func TestParseLinkOfAnotherKind(t *testing.T) {
	infiniband := AppendAttr(linkHeader(3, 0, 0), unix.IFLA_ADDRESS, make([]byte, 20))
	infiniband[len(infiniband)-1] = 1
	if l, err := ParseLink(infiniband); err != nil || l.Index != 3 || !l.MAC.IsZero() {
		t.Errorf("IPoIB: %+v, %v", l, err)
	}
	for _, n := range []int{0, unix.SizeofIfInfomsg - 1} {
		if l, err := ParseLink(linkHeader(3, 0, 0)[:n]); err == nil {
			t.Errorf("%d bytes are read as %+v", n, l)
		}
	}
}

// EMSGSIZE says that the kernel's list of VFs is cut, if the request asked for VFs.
func TestCutShort(t *testing.T) {
	for _, tt := range []struct {
		errno   unix.Errno
		withVFs bool
		want    bool
	}{
		{unix.EMSGSIZE, true, true}, {unix.EMSGSIZE, false, false}, {unix.ENODEV, true, false},
	} {
		got := cutShort(&KernelError{Errno: tt.errno}, tt.withVFs)
		if errors.Is(got, ErrVFsCut) != tt.want || !errors.Is(got, tt.errno) {
			t.Errorf("%v, with VFs %t: %v", tt.errno, tt.withVFs, got)
		}
	}
}
