package guest

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/vf"
)

const port = `<hookData>
  <network connections='1'>
    <name>passthrough</name>
    <uuid>00000000-0000-4000-8000-000000000001</uuid>
    <forward managed='no' mode='hostdev'><driver name='vfio'/></forward>
  </network>
  <networkport>
    <uuid>00000000-0000-4000-8000-000000000002</uuid>
    <owner>
      <name>db1</name>
      <uuid>6695EB01-f6a4-8304-79aa-97f2502e193f</uuid>
    </owner>
    <mac address='52:54:00:aa:00:03'/>
    <vlan>
      <tag id='42'/>
    </vlan>
    <plug type='hostdev-pci' managed='no'>
      <driver name='vfio'/>
      <address domain='0x0000' bus='0x01' slot='0x10' function='0x4'/>
    </plug>
  </networkport>
</hookData>
`

func TestParsePort(t *testing.T) {
	mac := vf.MAC{0x52, 0x54, 0, 0xaa, 0, 3}
	want := Port{Name: "db1", UUID: "6695eb01-f6a4-8304-79aa-97f2502e193f", Want: Want{
		Device: "0000-01-10-4", VF: vf.PCIAddr{Bus: 1, Device: 0x10, Function: 4}, Spec: vf.Spec{MAC: &mac, VLAN: &vf.VLAN{ID: 42, Proto: vf.Dot1Q}},
	}}
	got, err := ParsePort([]byte(port))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v -want +got:\n%s", err, diff)
	}
	bridge := strings.ReplaceAll(port, "hostdev-pci", "bridge")
	if got, err := ParsePort([]byte(bridge)); err != nil || !got.Want.VF.IsZero() {
		t.Errorf("a port of a bridge: %+v %v", got, err)
	}
	for from, says := range map[string]string{
		"<name>db1</name>":              `<owner> "" with UUID`,
		"bus='0x01'":                    "<address> of <plug>: bus is missing",
		"52:54:00:aa:00:03":             "<mac>: MAC address",
		"</networkport>\n</hookData>\n": "unexpected EOF",
		port:                            "it is empty",
	} {
		if _, err := ParsePort([]byte(strings.Replace(port, from, "", 1))); !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("without %s: %v", from, err)
		}
	}
	if _, err := ParsePort([]byte(port + strings.Repeat(" ", longest))); err == nil || !strings.Contains(err.Error(), "want at most") {
		t.Error(err)
	}
}

// With an error, a port has what could be read: its VF, and its guest.
func TestParsePortUnread(t *testing.T) {
	at := vf.PCIAddr{Bus: 1, Device: 0x10, Function: 4}
	for name, tc := range map[string]struct {
		from, to, says string
		vf             vf.PCIAddr
		isOwned        bool
	}{
		"VLAN":   {"<tag id='42'/>", "<tag id='4095'/>", `<tag id="4095"> of <vlan>: want 0 to 4094`, at, true},
		"trunk":  {"<vlan>", "<vlan trunk='yes'>", "<vlan>: want one tag", at, true},
		"MAC":    {"52:54:00:aa:00:03", "52:54", "<mac>: MAC address", at, true},
		"number": {"slot='0x10'", "slot='sixteen'", `<address> of <plug>: slot is "sixteen": want 0 to 0x1f`, vf.PCIAddr{}, true},
		"owner":  {"<name>db1</name>", "<name>d\u200bb1</name>", `<owner> "d\u200bb1" with UUID`, at, false},
		"all":    {port, "<hookData><networkport><plug type='hostdev-pci'/></networkport></hookData>", `<owner> ""`, vf.PCIAddr{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := ParsePort([]byte(strings.Replace(port, tc.from, tc.to, 1)))
			if !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got  %v\nwant %s", err, tc.says)
			}
			if p.Want.VF != tc.vf || (p.UUID != "") != tc.isOwned || (p.Name != "") != tc.isOwned {
				t.Errorf("read as %+v", p)
			}
		})
	}
	bridge := strings.NewReplacer("hostdev-pci", "bridge", "<vlan>", "<vlan trunk='yes'>", "52:54:00:aa:00:03", "x").Replace(port)
	if p, err := ParsePort([]byte(bridge)); err != nil || !p.Want.VF.IsZero() {
		t.Errorf("a port of Open vSwitch: %+v, %v", p, err)
	}
}

// FuzzParsePort: a port that ParsePort accepts has a guest, or no VF.
func FuzzParsePort(f *testing.F) {
	f.Add([]byte(port))
	f.Add([]byte(strings.NewReplacer("<vlan>", "<vlan trunk='yes'>", "slot='0x10'", "slot='sixteen'").Replace(port)))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ParsePort(text)
		if err == nil && !p.Want.VF.IsZero() && (p.Name == "" || len(p.UUID) != 36) {
			t.Fatalf("read as %+v", p)
		}
	})
}
