package guest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/guest"
	"github.com/culvert-net/culvert/internal/vf"
)

// Devices that are no VF of Culvert, and one that may be a VF: its address cannot be read.
const (
	ovsTrunk      = "<interface type='network'><source network='ovs'/><vlan trunk='yes'><tag id='42'/><tag id='47'/></vlan></interface>"
	ovsTag        = "<interface type='network'><source network='ovs'/><vlan><tag id='4095'/></vlan></interface>"
	oddMTU        = "<interface type='network'><source network='default'/><mtu size='large'/></interface>"
	usbHostdev    = "<hostdev mode='subsystem' type='usb'><source><address bus='x' device='y'/></source></hostdev>"
	unreadHostdev = "\n<hostdev mode='subsystem' type='pci'><source><address domain='0' bus='1' slot='sixteen' function='0'/></source></hostdev>"
)

// vfInterface is an <interface> over VF n, with these elements.
func vfInterface(n, elements string) string {
	return "<interface type='hostdev'><source><address type='pci' domain='0' bus='1' slot='0x10' function='" + n + "'/></source>" + elements + "</interface>"
}

// P10, I1: one device that cannot be read lets no guest start with the VF of another owner. The
// answer is a refusal, since libvirt's hook lets the guest start on every error. A device that is
// no VF of this host's ledger is no obstacle.
func TestP10StartWithAnUnreadDevice(t *testing.T) {
	const podHas = "VF 0000:01:10.0, which is attached: held by pod default/a"
	mac := "<mac address='02:aa:00:00:00:09'/>"
	for name, tc := range map[string]struct {
		devices []string
		refused []string // words of it; none: it starts
	}{
		"a trunk of Open vSwitch beside a pod's VF":           {[]string{ovsTrunk, hostdev(0, "")}, []string{podHas}},
		"tag 4095 beside a pod's VF":                          {[]string{hostdev(0, ""), ovsTag}, []string{podHas}},
		"an MTU that is none beside it":                       {[]string{oddMTU, hostdev(0, "")}, []string{podHas}},
		"a USB device beside it":                              {[]string{usbHostdev, hostdev(0, "")}, []string{podHas}},
		"a bad address beside it":                             {[]string{unreadHostdev, hostdev(0, "")}, []string{podHas, `a device that may be a VF: <hostdev> without alias at line 2 cannot be read: <address> of <source>: slot is "sixteen"`, "take it out of the definition"}},
		"a bad address beside a free VF":                      {[]string{unreadHostdev, hostdev(1, "")}, []string{"guest db1 cannot have a device that may be a VF: <hostdev> without alias at line 2 cannot be read"}},
		"a pod's VF with a trunk":                             {[]string{vfInterface("0", "<vlan trunk='yes'><tag id='1'/></vlan>")}, []string{podHas, "; VF 0000:01:10.0: <interface> without alias at line 1 cannot be read: <vlan>: want one tag"}},
		"a free VF with two tags":                             {[]string{vfInterface("1", mac+"<vlan><tag id='1'/><tag id='2'/></vlan>")}, []string{"guest db1 cannot have VF 0000:01:10.1: <interface> 02:aa:00:00:00:09 at line 1 cannot be read: <vlan>: want one tag"}},
		"a free VF with tag 4095":                             {[]string{vfInterface("1", "<vlan><tag id='4095'/></vlan>")}, []string{`<tag id="4095"> of <vlan>: want 0 to 4094`}},
		"a free VF with a bad MAC address":                    {[]string{vfInterface("1", "<mac address='x'/>")}, []string{"<mac>: MAC address"}},
		"a free VF over a network with a trunk":               {[]string{"<interface type='network'><source network='culvert-0000-01-10-1'/><vlan trunk='yes'><tag id='1'/></vlan></interface>"}, []string{"VF 0000:01:10.1: <interface>"}},
		"a device of Culvert's, which is gone":                {[]string{vfInterface("7", "<mac address='x'/><alias name='ua-culvert-net1'/>")}, []string{"VF 0000:01:10.7: <interface> ua-culvert-net1"}},
		"a device that Culvert does not have":                 {[]string{vfInterface("7", "<mac address='x'/>"), ovsTrunk, ovsTag, oddMTU, usbHostdev}, nil},
		"what does not concern the VF in a free VF's element": {[]string{vfInterface("1", "<mtu size='large'/><address type='novel' x='1'/>")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h, e := handler(t, "v0 attached pod net1")
			refused, err := report(t, h.Start, domain(tc.devices...))
			if err != nil {
				t.Fatalf("libvirt's hook lets the guest start: %v", err)
			}
			for _, w := range tc.refused {
				if !strings.Contains(refused, w) {
					t.Errorf("%q is not in %s", w, refused)
				}
			}
			if len(tc.refused) == 0 && refused != "" || len(tc.refused) > 0 && len(e.asked) > 0 {
				t.Errorf("refused: %q; asked of the engine: %q", refused, e.asked)
			}
		})
	}
}

// P10, I1: culvertd refuses a definition that it cannot read as a whole. It admits one whose devices
// can be read, if none of them is a VF of the ledger.
func TestP10StartOfAnUnreadDefinition(t *testing.T) {
	whole := domain(hostdev(0, ""))
	joined := func(s string) string { return strings.Replace(s, "db1", "d\u200db1", 1) }
	for name, tc := range map[string]struct {
		text    string
		refused string // empty: it starts
	}{
		"a name":                             {joined(whole), `the guest cannot start, since culvertd cannot tell which VFs it would have: the guest's definition: invalid: <name> "d\u200db1"`},
		"a long name":                        {strings.Replace(whole, "db1", strings.Repeat("a", 200), 1), "want one of at most 128 printable characters"},
		"a UUID":                             {strings.Replace(whole, uuid1, "1", 1), `<uuid> "1"`},
		"a name, and a device that is odd":   {joined(domain(unreadHostdev)), "<name>"},
		"a name, and other devices":          {joined(domain(hostdev(7, ""), ovsTrunk, usbHostdev)), ""},
		"no XML":                             {strings.Replace(whole, "</devices>", "", 1), "XML syntax error on line 1"},
		"too long":                           {whole + strings.Repeat(" ", 512<<10), "want at most 524288"},
		"an entity that is not of XML's own": {strings.Replace(whole, "qemu", "&nbsp;", 1), "invalid character entity"},
	} {
		t.Run(name, func(t *testing.T) {
			h, e := handler(t, "v0 attached pod net1")
			refused, err := report(t, h.Start, tc.text)
			if err != nil {
				t.Fatalf("libvirt's hook lets the guest start: %v", err)
			}
			if !strings.Contains(refused, tc.refused) || tc.refused == "" && refused != "" || len(e.asked) > 0 {
				t.Errorf("refused: %q, want %q; asked of the engine: %q", refused, tc.refused, e.asked)
			}
		})
	}
}

// A refusal fits into an answer, however many mistakes the definition has and however long they
// are: libvirt's hook lets the guest start if there is no answer. The guest's problem in the status
// is short, too.
func TestRefusalsAreShort(t *testing.T) {
	long := strings.Repeat("\u200b", 100<<10)
	slot := strings.Replace(unreadHostdev, "sixteen", long, 1)
	entry := "<domain><name>db1</name><uuid>" + uuid1 + "</uuid><metadata><g:guest xmlns:g='https://culvert.dev/guest'><g:vf device='net1' trust='" + long + "'/></g:guest></metadata></domain>"
	for name, text := range map[string]string{
		"a name": strings.Replace(domain(hostdev(0, "")), "db1", long, 1), "a UUID": strings.Replace(domain(hostdev(0, "")), uuid1, long, 1),
		"a number": domain(slot), "an alias": domain(strings.Replace(unreadHostdev, "</hostdev>", "<alias name='"+long+"'/></hostdev>", 1)),
		"a MAC address": domain(vfInterface("0", "<mac address='"+long+"'/>")), "a tag": domain(vfInterface("0", "<vlan><tag id='"+long+"'/></vlan>")),
		"many devices": domain(strings.Repeat(unreadHostdev, 4000)), "no XML": "<domain><" + strings.Repeat("x", 300<<10) + "></hostdev>", "the metadata": entry,
	} {
		h, _ := handler(t, "v0 attached pod net1")
		refused, err := report(t, h.Start, text)
		if err != nil || refused == "" || len(refused) > longestRefusal {
			t.Errorf("%s: %d bytes, %v", name, len(refused), err)
		}
		next, err := guest.Parse([]byte(text))
		if err != nil {
			continue
		}
		records, err := h.readRecords()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range findUnread([]Seen{{Name: "db1", Next: next}}, records) {
			if len(p.Reason) > longestList+100 {
				t.Errorf("%s: a problem of %d bytes", name, len(p.Reason))
			}
		}
	}
	h, _ := handler(t)
	if refused, err := report(t, h.PortCreated, strings.Replace(port(0, ""), "db1", long, 1)); err != nil || refused == "" || len(refused) > longestRefusal {
		t.Errorf("a port: %d bytes, %v", len(refused), err)
	}
}

// Where the ledger has no VFs, a guest starts whatever its definition says.
func TestUnreadWithoutVFs(t *testing.T) {
	l := emptyLedger(t)
	e := &fakeEngine{ledger: l}
	h := New(Parts{Engine: e, Resets: e, VFs: e}, l)
	for _, text := range []string{domain(unreadHostdev), domain(ovsTrunk), "<domain><hostdev>"} {
		if refused, err := report(t, h.Start, text); refused != "" || err != nil {
			t.Errorf("%s: %s, %v", text, refused, err)
		}
	}
	if refused, err := report(t, h.PortCreated, "<hookData><networkport><plug type='hostdev-pci'/></networkport></hookData>"); refused != "" || err != nil {
		t.Errorf("a port: %s, %v", refused, err)
	}
}

// P11, I1: a port that cannot be read gives no guest the VF of another owner. The end of a port
// needs only the guest and the VF (I8).
func TestP11PortUnread(t *testing.T) {
	for name, tc := range map[string]struct {
		port, refused string
	}{
		"tag 4095":               {port(0, "<vlan><tag id='4095'/></vlan>"), `a guest cannot have a device that may be a VF: the port of a network: invalid: <tag id="4095"> of <vlan>`},
		"a trunk":                {port(1, "<vlan trunk='yes'><tag id='1'/></vlan>"), "<vlan>: want one tag"},
		"a MAC address":          {port(1, "<mac address='x'/>"), "<mac>"},
		"an address":             {strings.Replace(port(1, ""), "0x10", "x", 1), `<address> of <plug>: slot is "x"`},
		"an owner":               {strings.Replace(port(0, ""), "db1", "d\u200db1", 1), "<owner>"},
		"no XML":                 {"<hookData>hostdev", "unexpected EOF"},
		"not of Culvert":         {port(7, "<vlan trunk='yes'><tag id='1'/></vlan>"), ""},
		"a port of a bridge":     {"<hookData><networkport><vlan trunk='yes'><tag id='x'/></vlan><mac address='x'/><plug type='bridge'/></networkport></hookData>", ""},
		"a port of Open vSwitch": {"<hookData><networkport><vlan trunk='yes'><tag id='4'/><tag id='5'/></vlan><plug type='bridge' bridge='ovs0'/></networkport></hookData>", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h, e := handler(t, "v0 attached pod net1")
			refused, err := report(t, h.PortCreated, tc.port)
			if err != nil || !strings.Contains(refused, tc.refused) || tc.refused == "" && refused != "" || len(e.asked) > 0 {
				t.Errorf("refused: %q, want %q; %v; asked of the engine: %q", refused, tc.refused, err, e.asked)
			}
		})
	}
	h, e := handler(t, "v1 attached "+uuid1+" net1")
	if _, err := report(t, h.PortDeleted, port(1, "<vlan trunk='yes'><tag id='1'/></vlan><mac address='x'/>")); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"end v1"}, e.asked); diff != "" {
		t.Errorf("put back: -want +got:\n%s", diff)
	}
}

// P12: the end of a guest takes its VFs back, also beside a device that cannot be read, and also a
// VF whose element cannot be read whole.
func TestP12StopWithAnUnreadDevice(t *testing.T) {
	for vf, device := range map[string]string{"v0": hostdev(0, "net1"), "v1": vfInterface("1", "<mac address='x'/>")} {
		h, e := handler(t, "v0 attached "+uuid1+" net1", "v1 attached "+uuid1+" net2", "v2 attached "+uuid1+" net3")
		if refused, err := report(t, h.Stop, domain(ovsTrunk, unreadHostdev, device)); refused != "" || err != nil {
			t.Error(refused, err)
		}
		if diff := cmp.Diff([]string{"end " + vf}, e.asked); diff != "" {
			t.Errorf("%s: -want +got:\n%s", device, diff)
		}
	}
}

// culvert vm xml gives a guest a VF beside devices that cannot be read. It refuses the name of such
// a device, before a VF is leased.
func TestXMLBesideUnreadDevices(t *testing.T) {
	odd := strings.Replace(unreadHostdev, "</hostdev>", "<alias name='ua-culvert-net9'/></hostdev>", 1)
	queues := "<interface type='bridge'><model type='virtio'/><driver queues='many'/></interface>"
	text := domain(ovsTrunk, ovsTag, oddMTU, usbHostdev, queues, odd, vfInterface("3", "<mac address='x'/>"))
	for device, says := range map[string]string{"net1": "", "net9": "guest db1: invalid: <hostdev> ua-culvert-net9 at line 2 cannot be read"} {
		h, e := handler(t, "v0 attached "+uuid1+" net1", "v1 attached "+uuid1+" net9")
		params, err := json.Marshal(api.GuestXMLRequest{Definition: text, Device: device, Way: "hostdev"})
		if err != nil {
			t.Fatal(err)
		}
		out, err := h.XML(t.Context(), params)
		if says != "" {
			if err == nil || !strings.Contains(err.Error(), says) || len(e.asked) > 0 {
				t.Errorf("%s: %v, want %s; asked of the engine: %q", device, err, says, e.asked)
			}
			continue
		}
		given, _ := out.(api.GuestXML)
		if err != nil || given.VF != (vf.PCIAddr{Bus: 1, Device: 0x10}) || !strings.Contains(given.Definition, ovsTrunk+ovsTag+oddMTU+usbHostdev+queues+odd) {
			t.Errorf("%s: %v\n%s", device, err, given.Definition)
		}
	}
}

// FuzzStart: whatever stands in a definition beside a pod's VF, the guest does not start. An error
// would let it start.
func FuzzStart(f *testing.F) {
	h, e := handler(f, "v0 attached pod net1")
	for _, device := range []string{"", ovsTrunk, ovsTag, oddMTU, usbHostdev, unreadHostdev, vfInterface("1", "<vlan><tag id='4095'/></vlan>"), "</devices></domain>"} {
		f.Add(device)
	}
	f.Fuzz(func(t *testing.T, device string) {
		refused, err := report(t, h.Start, domain(hostdev(0, ""), device))
		if err != nil || refused == "" || len(e.asked) > 0 {
			t.Fatalf("it starts: %v; asked of the engine: %q", err, e.asked)
		}
	})
}
