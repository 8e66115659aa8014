package guest

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/culvert-net/culvert/internal/vf"
)

// unreadPart is a change of db1.xml after which one device cannot be read.
type unreadPart struct {
	from, to string
	use      int        // the device, in the order of db1.xml
	vf       vf.PCIAddr // its address; zero if that is what cannot be read
	says     string
}

func (p unreadPart) in(t testing.TB) []byte {
	t.Helper()
	whole := string(read(t, "db1.xml"))
	if !strings.Contains(whole, p.from) {
		t.Fatal("not in db1.xml: " + p.from)
	}
	return []byte(strings.Replace(whole, p.from, p.to, 1))
}

// unreadParts has each part of a device that concerns its VF.
func unreadParts() map[string]unreadPart {
	at := vf.PCIAddr{Bus: 1, Device: 0x10, Function: 2}
	over := "<source network='culvert-0000-01-10-6'/>"
	return map[string]unreadPart{
		"bus":                   {"bus='0x01' slot='0x10' function='0x2'", "bus='0x100' slot='0x10' function='0x2'", 0, vf.PCIAddr{}, `<interface> hostdev0 at line 20 cannot be read: <address> of <source>: bus is "0x100": want 0 to 0xff`},
		"slot":                  {"slot='0x10' function='0x2'", "slot='0x20' function='0x2'", 0, vf.PCIAddr{}, `slot is "0x20": want 0 to 0x1f`},
		"function":              {"function='0x2'", "function='8'", 0, vf.PCIAddr{}, `function is "8": want 0 to 0x7`},
		"domain":                {"domain='0x0000' bus='0x01' slot='0x10' function='0x2'", "domain='0x100000000' bus='0x01' slot='0x10' function='0x2'", 0, vf.PCIAddr{}, `domain is "0x100000000": want 0 to 0xffffffff`},
		"no number":             {"slot='0x10' function='0x2'", "slot='sixteen' function='0x2'", 0, vf.PCIAddr{}, `slot is "sixteen": want 0 to 0x1f`},
		"a negative number":     {"slot='0x10' function='0x2'", "slot='-1' function='0x2'", 0, vf.PCIAddr{}, `slot is "-1"`},
		"no address":            {"<address type='pci' domain='0x0000' bus='0x01' slot='0x10' function='0x2'/>", "", 0, vf.PCIAddr{}, "<address> of <source> is missing"},
		"the address's type":    {"type='pci' domain", "type='ccw' domain", 0, vf.PCIAddr{}, `type is "ccw": want pci`},
		"MAC":                   {"52:54:00:aa:00:02", "52:54", 0, at, `<interface> hostdev0 at line 20 cannot be read: <mac>: MAC address "52:54"`},
		"tag":                   {"<tag id='42'/>", "<tag id='4095'/>", 0, at, `<tag id="4095"> of <vlan>: want 0 to 4094`},
		"no tag":                {"<tag id='42'/>", "<tag/>", 0, at, `<tag id=""> of <vlan>`},
		"a tag of many digits":  {"<tag id='42'/>", "<tag id='42000000000000000000000'/>", 0, at, "of <vlan>: want 0 to 4094"},
		"two tags":              {"<tag id='42'/>", "<tag id='42'/><tag id='43'/>", 0, at, "<vlan>: want one tag: a VF has no trunk"},
		"a trunk of two tags":   {"<vlan>\n        <tag id='42'/>", "<vlan trunk='yes'><tag id='42'/><tag id='47' nativeMode='untagged'/>", 0, at, "at line 20 cannot be read: <vlan>: want one tag: a VF has no trunk"},
		"trunk":                 {"<vlan>", "<vlan trunk='yes'>", 0, at, "<vlan>: want one tag: a VF has no trunk"},
		"over a network of one": {"<mac address='52:54:00:aa:00:03'/>\n      <source network='passthrough'/>", over + "<vlan trunk='yes'/>", 1, vf.PCIAddr{Bus: 1, Device: 0x10, Function: 6}, "<interface> without alias at line 30 cannot be read: <vlan>"},
		"its MAC":               {"<mac address='52:54:00:aa:00:03'/>\n      <source network='passthrough'/>", over + "<mac address='x'/>", 1, vf.PCIAddr{Bus: 1, Device: 0x10, Function: 6}, "<mac>"},
		"hostdev, no slot":      {"bus='0x01' slot='0x10' function='0x4'", "bus='0x01' function='0x4'", 2, vf.PCIAddr{}, "<hostdev> ua-culvert-net9 at line 38 cannot be read: <address> of <source>: slot is missing"},
		"hostdev, no number":    {"slot='0x10' function='0x4'", "slot='sixteen' function='0x4'", 2, vf.PCIAddr{}, `slot is "sixteen"`},
		"hostdev, no source":    {"<source>\n        <address domain='0x0000' bus='0x01' slot='0x10' function='0x4'/>\n      </source>", "", 2, vf.PCIAddr{}, "<address> of <source> is missing"},
		"hostdev, no mode":      {"<hostdev mode='subsystem' type='pci' managed='yes'>\n      <source>\n        <address domain='0x0000'", "<hostdev type='pci' managed='yes'>\n      <source>\n        <address domain='x'", 2, vf.PCIAddr{}, `domain is "x"`},
	}
}

// Parse reads each device by itself. One that cannot be read says why, and at which line. The
// others are as they are without it, and the definition takes devices and gives them back.
func TestOneUnreadDevice(t *testing.T) {
	clean := db1(t)
	for name, tc := range unreadParts() {
		t.Run(name, func(t *testing.T) {
			d := parsed(t, tc.in(t))
			u := d.Uses[tc.use]
			if u.Err == nil || !strings.Contains(u.Err.Error(), tc.says) || u.VF() != tc.vf || !u.MayBe(clean.Uses[0].PCI) && tc.vf.IsZero() {
				t.Errorf("%+v\nwant VF %s, %s", u, tc.vf, tc.says)
			}
			same := append([]Use{}, clean.Uses...)
			same[tc.use] = u
			if diff := cmp.Diff(same, d.Uses, cmpopts.EquateErrors()); diff != "" {
				t.Errorf("another device is read otherwise: -want +got:\n%s", diff)
			}
			wants, err := d.Wants()
			unread := 0
			for _, w := range wants {
				if w.Err != nil && w.VF == tc.vf {
					unread++
				}
			}
			if err != nil || unread != 1 || tc.use != 1 && len(wants) != 2 {
				t.Errorf("it wants %+v: %v", wants, err)
			}
			with, err := d.With(device(Interface))
			if err != nil {
				t.Fatal(err)
			}
			after := parsed(t, []byte(with))
			if w, has, err := after.Of("net1"); !has || err != nil || !cmp.Equal(w.Spec, device(Interface).Spec) {
				t.Errorf("with one more device: %+v, %t, %v", w, has, err)
			}
			other := device(Interface)
			other.PCI.Function = 5
			if replaced, err := after.Replaced(other); err != nil || !strings.Contains(replaced, tc.to) {
				t.Errorf("with another VF: %v\n%s", err, replaced)
			}
			without, err := after.Without("net1")
			if bare := func(s string) string { return strings.Join(strings.Fields(s), " ") }; err != nil || bare(without) != bare(string(tc.in(t))) {
				t.Errorf("there and back: %v\n%s", err, without)
			}
		})
	}
}

// A device of Culvert's that cannot be read is not another VF's: it is refused under its name, and
// taken out by it. A guest with one does not move.
func TestUnreadDeviceOfCulvert(t *testing.T) {
	for name, tc := range unreadParts() {
		if !strings.HasPrefix(name, "hostdev") {
			continue
		}
		d := parsed(t, tc.in(t))
		if _, has, err := d.Of("net9"); has || !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: Of says %t, %v", name, has, err)
		}
		dev := device(Hostdev)
		dev.Name = "net9"
		if _, err := d.With(dev); err == nil || !strings.Contains(err.Error(), "guest db1 has a device net9 already: <hostdev>") {
			t.Errorf("%s: With says %v", name, err)
		}
		if err := d.CanMove(); !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: CanMove says %v", name, err)
		}
		text, err := d.Without("net9")
		if err != nil || strings.Contains(text, "net9") || len(parsed(t, []byte(text)).Uses) != 2 {
			t.Errorf("%s: Without: %v\n%s", name, err, text)
		}
	}
}

// An entry of the metadata may be for the device whose address cannot be read: that is the mistake,
// and not the entry.
func TestEntryOfAnUnreadDevice(t *testing.T) {
	text := strings.Replace(string(bare(ours(`<c:vf pci="0000:01:10.6" trust="on"/>`))), "function='0x6'", "function='six'", 1)
	wants, err := parsed(t, []byte(text)).Wants()
	if err != nil || len(wants) != 2 || wants[1].Err == nil || wants[1].Ours {
		t.Errorf("%+v, %v", wants, err)
	}
}

// foreignDevices has devices that pass no VF which Culvert knows. What they say of other things is
// nobody's mistake, also where libvirt's types do not know it.
func foreignDevices() map[string]string {
	return map[string]string{
		"a trunk of Open vSwitch":    "<interface type='network'><mac address='52:54:00:aa:00:01'/><source network='ovs'/><vlan trunk='yes'><tag id='42' nativeMode='untagged'/><tag id='47'/></vlan></interface>",
		"two tags":                   "<interface type='network'><source network='ovs'/><vlan><tag id='42'/><tag id='47'/></vlan></interface>",
		"tag 4095":                   "<interface type='network'><source network='ovs'/><vlan><tag id='4095'/></vlan></interface>",
		"no tag":                     "<interface type='network'><source network='ovs'/><vlan><tag id='all'/></vlan></interface>",
		"a MAC address":              "<interface type='network'><mac address='52:54'/><source network='default'/></interface>",
		"no network":                 "<interface type='network'><source/></interface>",
		"a network named like ours":  "<interface type='network'><source network='culvert-uplink'/><vlan trunk='yes'/></interface>",
		"an MTU":                     "<interface type='network'><source network='default'/><mtu size='large'/></interface>",
		"bandwidth":                  "<interface type='network'><source network='default'/><bandwidth><inbound average='1.5'/></bandwidth></interface>",
		"the address in the guest":   "<interface type='network'><source network='default'/><address type='novel' x='1'/></interface>",
		"a bridge with a trunk":      "<interface type='bridge'><source bridge='br0'/><vlan trunk='yes'><tag id='x'/></vlan><virtualport type='openvswitch'/></interface>",
		"an interface without type":  "<interface/>",
		"USB":                        "<hostdev mode='subsystem' type='usb'><source><address bus='x' device='y'/></source></hostdev>",
		"an interface over USB":      "<interface type='hostdev'><source><address type='usb' bus='1' device='2'/></source></interface>",
		"SCSI":                       "<hostdev mode='subsystem' type='scsi'><source><adapter name='scsi_host0'/><address bus='0' target='x' unit='0'/></source></hostdev>",
		"a mediated device":          "<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source><address uuid='x'/></source></hostdev>",
		"an interface of the host":   "<hostdev mode='capabilities' type='net'><source><interface>eth0</interface></source></hostdev>",
		"a novel kind":               "<hostdev mode='novel' type='pci'><source><address bus='x'/></source></hostdev>",
		"another's element":          "<x:hostdev xmlns:x='urn:other' mode='subsystem' type='pci'><source><address bus='x'/></source></x:hostdev>",
		"a disk that has a hostdev":  "<disk><hostdev mode='subsystem' type='pci'/><address type='drive' unit='x'/></disk>",
		"a controller":               "<controller type='pci' index='many'><target chassis='x'/></controller>",
		"an address above the range": "<disk type='file'><address type='pci' domain='0x10000' bus='0x100' slot='0x40' function='0x9'/></disk>",
	}
}

// A device that passes no VF which Culvert knows is no obstacle, whatever it says.
func TestForeignDevices(t *testing.T) {
	for name, device := range foreignDevices() {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(string(read(t, "db1.xml")), "<devices>\n    <interface type='novel'>", "<devices>"+device+"<interface type='novel'>", 1)
			d := parsed(t, []byte(text))
			for _, u := range d.Uses {
				if u.Err != nil {
					t.Error(u.Err)
				}
			}
			got, err := d.Wants()
			want, _ := db1(t).Wants()
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%v -want +got:\n%s", err, diff)
			}
			movable := parsed(t, domain("<devices>"+device+"</devices>"))
			if err := movable.CanMove(); err != nil {
				t.Errorf("a guest with it cannot move: %v", err)
			}
			if _, err := ParseTuning([]byte(text)); err != nil {
				t.Errorf("a guest with it takes no VF: %v", err)
			}
		})
	}
}

// What libvirtxml cannot decode in the element of a VF, and does not concern the VF, is not read.
func TestForeignPartsOfAVF(t *testing.T) {
	want := db1(t).Uses[0]
	for _, part := range []string{
		"<mtu size='large'/>", "<address type='pci' bus='x'/>", "<address type='novel'/>", "<boot order='first'/>", "<rom bar='off' file='/x'/>",
		"<bandwidth><inbound average='1.5'/></bandwidth>", "<driver queues='many'/>", "<novel><address bus='x'/></novel>", "<coalesce><rx><frames max='x'/></rx></coalesce>",
		"<guest dev='x'/>", "<tune><sndbuf>x</sndbuf></tune>", "<acpi index='x'/>",
	} {
		text := strings.Replace(string(read(t, "db1.xml")), "<alias name='hostdev0'/>", part+"<alias name='hostdev0'/>", 1)
		if diff := cmp.Diff(want, parsed(t, []byte(text)).Uses[0]); diff != "" {
			t.Errorf("%s: -want +got:\n%s", part, diff)
		}
	}
}

// readAlone reads a device as the only one of a definition.
func readAlone(t testing.TB, device []byte) Use {
	t.Helper()
	uses, err := ParseUses([]byte("<domain><devices>" + string(device) + "</devices></domain>"))
	if err != nil || len(uses) != 1 {
		t.Fatalf("%d devices in %q: %v", len(uses), device, err)
	}
	return uses[0]
}

// isSameUse compares all but the lines in the errors.
func isSameUse(a, b Use) bool {
	same := (a.Err == nil) == (b.Err == nil)
	a.Err, b.Err = nil, nil
	return same && cmp.Equal(a, b)
}
