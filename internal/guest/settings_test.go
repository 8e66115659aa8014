package guest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/vf"
)

// everything is a spec with all settings.
func everything() vf.Spec {
	on, off, state, low, high := true, false, vf.LinkEnable, uint32(50), uint32(200)
	return vf.Spec{
		MAC: &vf.MAC{2, 0, 0, 0, 0, 7}, VLAN: &vf.VLAN{ID: 100, Proto: vf.Dot1Q}, SpoofChk: &off, Trust: &on, LinkState: &state,
		MinTxRate: &low, MaxTxRate: &high,
	}
}

// bare is a definition with the given metadata, and a plain VF that has the alias
// of device net1.
func bare(metadata string) []byte {
	return fmt.Appendf(nil, `<domain type='kvm'>
  <name>a</name>
  <uuid>6695eb01-f6a4-8304-79aa-97f2502e193f</uuid>%s
  <memory unit='KiB'>524288</memory>
  <os>
    <type arch='x86_64' machine='pc'>hvm</type>
  </os>
  <devices>
    <hostdev mode='subsystem' type='pci' managed='yes'>
      <source><address domain='0x0000' bus='0x01' slot='0x10' function='0x4'/></source>
      <alias name='ua-culvert-net1'/>
    </hostdev>
    <hostdev mode='subsystem' type='pci' managed='yes'>
      <source><address domain='0x0000' bus='0x01' slot='0x10' function='0x6'/></source>
    </hostdev>
  </devices>
</domain>
`, metadata)
}

func ours(entries string) string {
	return "\n  <metadata><c:guest xmlns:c='https://culvert.dev/guest'>" + entries + "</c:guest></metadata>"
}

func parsed(t testing.TB, text []byte) Definition {
	t.Helper()
	d, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Wants reads every setting that formatXML writes. It finds a device by its name or by its VF. A
// device without an entry has the settings of its element.
func TestWants(t *testing.T) {
	tagged := everything()
	tagged.VLAN = &vf.VLAN{ID: 5, QoS: 3, Proto: vf.Dot1AD}
	e := entry{Device: "net1", Pool: `x/"fast"`, Apart: "net2", Spec: tagged}
	d := parsed(t, bare(ours(e.formatXML()[:1]+"c:"+strings.TrimPrefix(e.formatXML(), "<"+ourPrefix)+`<!-- a note --><c:vf pci="0000:01:10.6" trust="on"/><c:vf device="gone" trust="off"/>`)))
	on := true
	want := []Want{
		{Device: "net1", VF: vf.PCIAddr{Bus: 1, Device: 0x10, Function: 4}, Pool: `x/"fast"`, Apart: "net2", Spec: tagged, Ours: true},
		{Device: "0000-01-10-6", VF: vf.PCIAddr{Bus: 1, Device: 0x10, Function: 6}, Spec: vf.Spec{Trust: &on}, Ours: true},
	}
	got, err := d.Wants()
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v -want +got:\n%s", err, diff)
	}
	if _, ok, err := d.Of("gone"); ok || err != nil {
		t.Errorf("an entry of a device that is gone: %v %v", ok, err)
	}
	mac2 := vf.MAC{0x52, 0x54, 0, 0xaa, 0, 2}
	want = []Want{ // without the device whose VF libvirt chooses from a network
		{Device: "0000-01-10-2", VF: vf.PCIAddr{Bus: 1, Device: 0x10, Function: 2}, Spec: vf.Spec{MAC: &mac2, VLAN: &vf.VLAN{ID: 42, Proto: vf.Dot1Q}}},
		{Device: "net9", VF: vf.PCIAddr{Bus: 1, Device: 0x10, Function: 4}, Ours: true},
	}
	got, err = db1(t).Wants()
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v -want +got:\n%s", err, diff)
	}
}

// Brief keeps name, UUID, wants and the devices that may be VFs, and the reason why wants cannot be read.
func TestBrief(t *testing.T) {
	d := db1(t)
	brief, err := d.Brief()
	if err != nil {
		t.Fatal(err)
	}
	want, err := d.Wants()
	if err != nil {
		t.Fatal(err)
	}
	got, err := brief.Wants()
	if diff := cmp.Diff(want, got); diff != "" || err != nil || brief.Name != d.Name || brief.UUID != d.UUID {
		t.Errorf("%s %s, %v -want +got:\n%s", brief.Name, brief.UUID, err, diff)
	}
	for _, u := range d.Uses {
		if !u.VF().IsZero() && !slices.ContainsFunc(brief.Uses, func(o Use) bool { return o.PCI == u.VF() && o.Way == u.Way && o.Managed == u.Managed }) {
			t.Errorf("%+v is lost: %+v", u, brief.Uses)
		}
	}
	long := strings.Repeat("x", 4*longestReason)
	brief, err = parsed(t, bare(ours(`<c:vf device="net1" trust="`+long+`"/>`))).Brief()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := brief.Wants(); err == nil || len(err.Error()) > longestReason || !strings.Contains(err.Error(), "trust") {
		t.Errorf("wants that cannot be read: %v", err)
	}
}

// A definition with more devices than a guest can have VFs is refused: each of them would be kept.
func TestBriefRefuses(t *testing.T) {
	d := Definition{Name: "db1"}
	for i := range mostUses + 1 {
		d.Uses = append(d.Uses, Use{Way: Hostdev, PCI: vf.PCIAddr{Bus: uint8(i), Device: 1}})
	}
	if _, err := d.Brief(); !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), "129 of its devices may be VFs; want at most 128") {
		t.Error(err)
	}
}

// Wants and With report a mistake in our part of the metadata with element, value and what would
// do. Parse reads the definition all the same.
func TestSettingsAreReadStrictly(t *testing.T) {
	vfEntry := func(attrs string) string { return "<c:vf " + attrs + "/>" }
	for name, tc := range map[string]struct{ entries, says string }{
		"trust":            {vfEntry(`device="net1" trust="yes"`), `<culvert:vf device='net1'>: trust "yes": want on or off`},
		"spoof check":      {vfEntry(`device="net1" spoofchk=""`), `spoofchk "": want on or off`},
		"no name":          {vfEntry(`trust="on"`), `<culvert:vf>: want one of device`},
		"both names":       {vfEntry(`device="net1" pci="0000:01:10.4"`), `<culvert:vf>: want one of device`},
		"a name's form":    {vfEntry(`device="a b"`), `device name "a b"`},
		"an address":       {vfEntry(`pci="01:10"`), `<culvert:vf>: pci `},
		"no such device":   {vfEntry(`pci="0000:01:10.5" trust="on"`), `<culvert:vf pci='0000:01:10.5'>: the definition has no such device`},
		"an attribute":     {vfEntry(`device="net1" trst="on"`), `attribute trst is not known: did you mean trust`},
		"a prefix":         {`<c:vf xmlns:o="urn:o" o:device="net1"/>`, `attribute device has a prefix`},
		"VLAN":             {vfEntry(`device="net1" vlan="4095"`), `vlan "4095": want 1 to 4094`},
		"priority":         {vfEntry(`device="net1" vlan="5" vlan-qos="8"`), `vlan-qos "8": want 0 to 7`},
		"priority alone":   {vfEntry(`device="net1" vlan-qos="1"`), `give vlan, 1 to 4094, too`},
		"protocol":         {vfEntry(`device="net1" vlan="5" vlan-proto="802.11"`), `vlan-proto "802.11": want 802.1q or 802.1ad`},
		"MAC":              {vfEntry(`device="net1" mac="01:00:00:00:00:01"`), `mac MAC address "01:00:00:00:00:01": want a unicast address`},
		"link state":       {vfEntry(`device="net1" link-state="up"`), `link-state "up": want auto, enable or disable`},
		"rate":             {vfEntry(`device="net1" max-tx-rate="1G"`), `max-tx-rate "1G": want Mb/s`},
		"rates":            {vfEntry(`device="net1" min-tx-rate="9" max-tx-rate="8"`), `min-tx-rate 9: want at most the maximum, 8 Mb/s`},
		"apart":            {vfEntry(`device="net1" apart="a b"`), `device name "a b"`},
		"apart from self":  {vfEntry(`device="net1" apart="net1"`), `apart "net1": want another device`},
		"pool":             {vfEntry(`device="net1" pool=""`), `pool "": want prefix/name`},
		"twice":            {vfEntry(`device="net1"`) + vfEntry(`device="net1" trust="on"`), `<culvert:vf device='net1'> is there twice`},
		"another element":  {`<c:vlan id="5"/>`, `<vlan> in <culvert:guest>: want <culvert:vf .../>`},
		"another space":    {`<vf device="net1"/>`, `<vf> in <culvert:guest>`},
		"something inside": {`<c:vf device="net1"><trust/></c:vf>`, `with nothing in it`},
		"text":             {"trust", `<culvert:guest>: want <culvert:guest> with nothing in it but`},
	} {
		t.Run(name, func(t *testing.T) {
			d := parsed(t, bare(ours(tc.entries)))
			_, err := d.Wants()
			if !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), "<metadata> of guest a") {
				t.Errorf("got  %v\nwant %s", err, tc.says)
			}
			if strings.Contains(tc.says, "no such device") {
				return // which device it was meant for another render does not know
			}
			dev := device(Interface)
			dev.Failover = ""
			if _, with := d.With(dev); with == nil || with.Error() != err.Error() {
				t.Errorf("With: %v", with)
			}
		})
	}
	twice := "\n  <metadata><a xmlns='https://culvert.dev/guest'/><b xmlns='https://culvert.dev/guest'/></metadata>"
	for _, metadata := range []string{twice, strings.ReplaceAll(twice, "<a ", "<guest ")} {
		if _, err := parsed(t, bare(metadata)).Wants(); !errors.Is(err, vf.ErrInvalid) {
			t.Errorf("%s: %v", metadata, err)
		}
	}
	own := "\n  <metadata><guest xmlns='https://culvert.dev/guest'><vf pci='0000:01:10.2' vlan='7'/></guest></metadata>"
	text := strings.Replace(string(read(t, "db1.xml")), "</uuid>", "</uuid>"+own, 1)
	if _, err := parsed(t, []byte(text)).Wants(); err == nil || !strings.Contains(err.Error(), "said by the device's own <mac> and <vlan>") {
		t.Errorf("an interface's VLAN: %v", err)
	}
}

// Writing settings leaves <metadata> with one entry of each device, which has the last settings. It
// changes nothing else, for every content that <metadata> had before.
func TestOneEntryOfADevice(t *testing.T) {
	foreign := `<app:x xmlns:app="urn:other" a='1'> <app:guest/> </app:x>`
	for name, metadata := range map[string]string{
		"none":           "",
		"empty":          "\n  <metadata/>",
		"empty, in two":  "\n  <metadata>\n  </metadata>",
		"somebody's":     "\n  <metadata>\n    " + foreign + "\n  </metadata>",
		"ours":           ours(`<c:vf device="net1" trust="off"/>`),
		"both, reversed": strings.Replace(ours(`<c:vf device="net2" trust="off"/>`), "<metadata>", "<metadata>"+foreign, 1),
	} {
		t.Run(name, func(t *testing.T) {
			text := bare(metadata)
			dev := device(Hostdev)
			dev.Failover, dev.PCI = "", vf.PCIAddr{Bus: 1, Device: 0x10, Function: 4}
			once, err := parsed(t, text).With(dev)
			if err != nil {
				t.Fatal(err)
			}
			again, err := parsed(t, []byte(once)).With(dev)
			if err != nil || again != once {
				t.Errorf("twice: %v\n%s", err, cmp.Diff(once, again))
			}
			if got, ok, err := parsed(t, []byte(once)).Of("net1"); err != nil || !ok || !cmp.Equal(got.Spec, dev.Spec) {
				t.Errorf("%v\n%s", err, cmp.Diff(dev.Spec, got.Spec))
			}
			if n := strings.Count(once, `device="net1"`); n != 1 {
				t.Errorf("%d entries:\n%s", n, once)
			}
			if strings.Contains(metadata, foreign) && !strings.Contains(once, foreign) {
				t.Errorf("somebody's metadata changed:\n%s", once)
			}
			if strings.Contains(metadata, "net2") != strings.Contains(once, `device="net2" trust="off"`) {
				t.Errorf("the other device's entry:\n%s", once)
			}
			without := func(s string) string {
				before, rest, _ := strings.Cut(s, "</uuid>")
				_, devices, _ := strings.Cut(rest, "<devices>")
				return before + devices
			}
			if diff := cmp.Diff(without(string(text)), without(once)); diff != "" {
				t.Errorf("something else changed:\n%s", diff)
			}
			validate(t, "domain", once)
		})
	}
}
