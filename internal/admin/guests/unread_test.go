package guests

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// foreign has devices that are no VFs of Culvert, and hold what no VF can have.
const foreign = `
    <interface type='network'><source network='ovs'/><vlan trunk='yes'><tag id='42'/><tag id='47'/></vlan></interface>
    <interface type='network'><mac address='52:54'/><source network='ovs'/><vlan><tag id='4095'/></vlan><mtu size='large'/></interface>
    <hostdev mode='subsystem' type='usb'><source><address bus='x' device='y'/></source></hostdev>`

// unreadHostdev may be a VF: its address cannot be read.
const unreadHostdev = `
    <hostdev mode='subsystem' type='pci'><source><address bus='0x01' slot='sixteen' function='0x0'/></source></hostdev>`

// beside puts devices into a definition.
func beside(definition, devices string) string {
	return strings.Replace(definition, "<devices>", "<devices>"+devices, 1)
}

// Attach and Detach work beside devices that cannot be read, and leave them as they are.
func TestAttachBesideUnreadDevices(t *testing.T) {
	a, _ := hosts(t, &world{}, nil)
	a.Defined = beside(a.Defined, foreign+unreadHostdev)
	a.Live = a.Defined
	before := a.Defined
	if _, err := attached(t, a, Attachment{}); err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string]string{"live": a.Live, "config": a.Defined} {
		if !strings.Contains(text, foreign+unreadHostdev) || strings.Count(text, "ua-culvert-net2") != 1 {
			t.Errorf("%s:\n%s", where, text)
		}
	}
	if _, err := Detach(t.Context(), a, "db1", "net2", func(string) {}); err != nil {
		t.Fatal(err)
	}
	bare := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if diff := cmp.Diff(bare(before), bare(a.Defined)); diff != "" || len(a.leased) != 1 {
		t.Errorf("%d VFs are leased; the definition: -before +after:\n%s", len(a.leased), diff)
	}
}

// Attach refuses the name of a device with which the guest runs and that cannot be read. Detach
// takes such a device out.
func TestUnreadDeviceOfTheName(t *testing.T) {
	named := strings.Replace(unreadHostdev, "</hostdev>", "<alias name='ua-culvert-net2'/></hostdev>", 1)
	a, _ := hosts(t, &world{}, nil)
	a.Live = beside(a.Defined, named)
	_, err := attached(t, a, Attachment{})
	if !errors.Is(err, vf.ErrHeld) || !strings.Contains(err.Error(), "<hostdev> ua-culvert-net2 at line ") || !strings.Contains(err.Error(), "culvert vm detach db1 net2 first") {
		t.Errorf("attach: %v", err)
	}
	if len(a.leased) != 1 || strings.Contains(a.Defined, "net2") {
		t.Errorf("%d VFs are leased; the definition:\n%s", len(a.leased), a.Defined)
	}
	a.Defined = beside(a.Defined, named)
	done, err := Detach(t.Context(), a, "db1", "net2", func(string) {})
	if diff := cmp.Diff(api.GuestDetached{VFs: []api.GuestVF{}, Devices: []string{"net2"}}, done); diff != "" || err != nil || strings.Contains(a.Live+a.Defined, "net2") {
		t.Errorf("detach: %v -want +got:\n%s\n%s%s", err, diff, a.Live, a.Defined)
	}
}

// P16: a guest migrates with devices that are no VFs, off and as it runs. One with a device that
// may be a VF and cannot be read does not migrate, and nothing is changed.
func TestP16BesideUnreadDevices(t *testing.T) {
	for name, live := range map[string]bool{"off": false, "running": true} {
		t.Run(name, func(t *testing.T) {
			a, b := hosts(t, &world{}, func(req *api.GuestXMLRequest) { req.Failover = "ua-slow" })
			a.Defined = beside(a.Defined, foreign)
			if live {
				a.Live = a.Defined
			}
			before := a.Defined
			if err := migrate(t, a, b, Migration{Live: live}); err != nil {
				t.Fatal(err)
			}
			moved(t, a, b, before)
			if !strings.Contains(b.Defined, foreign) || live && !strings.Contains(b.Live, foreign) {
				t.Errorf("its other devices:\n%s\n%s", b.Defined, b.Live)
			}

			a, b = hosts(t, &world{}, func(req *api.GuestXMLRequest) { req.Failover = "ua-slow" })
			a.Defined = beside(a.Defined, unreadHostdev)
			if live {
				a.Live = a.Defined
			}
			was := a.Seen
			err := migrate(t, a, b, Migration{Live: live})
			if !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), `guest db1: <hostdev> without alias at line `) || !strings.Contains(err.Error(), "virsh edit db1") {
				t.Error(err)
			}
			if diff := cmp.Diff(was, a.Seen); diff != "" || b.Defined != "" || len(b.leased) > 0 {
				t.Errorf("something changed: %s; b has %q", diff, b.Defined)
			}
		})
	}
}
