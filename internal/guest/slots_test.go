package guest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/vf"
)

// on returns a device at a PCI address of the guest.
func on(device, attributes string, bus, slot int) string {
	return fmt.Sprintf("<%s %s><address type='pci' domain='0x0000' bus='0x%02x' slot='0x%02x' function='0x0'/></%[1]s>", device, attributes, bus, slot)
}

// bridges returns n controllers for PCI of a model, from an index on, at one slot each of bus 0.
func bridges(model string, n, index, slot int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(on("controller", fmt.Sprintf("type='pci' model='%s' index='%d'", model, index+i), 0, slot+i))
	}
	return b.String()
}

func TestSlots(t *testing.T) {
	const root = "<controller type='pci' index='0' model='pcie-root'/>"
	disk := func(bus, slot int) string { return on("disk", "type='file'", bus, slot) }
	vfOf := func(bus, slot int) string { return on("interface", "type='hostdev'", bus, slot) }
	for name, c := range map[string]struct {
		machine, devices string
		want             Slots
	}{
		"q35, empty":                {"pc-q35-9.2", root, Slots{Express: true, Most: 240, Easily: 240}},
		"q35, short name":           {"q35", root, Slots{Express: true, Most: 240, Easily: 240}},
		"arm":                       {"virt-9.2", root, Slots{Express: true, Most: 240, Easily: 240}},
		"ports, one with a VF":      {"q35", root + bridges("pcie-root-port", 4, 1, 2) + vfOf(2, 0), Slots{Express: true, Most: 240, Easily: 240, Free: 3}},
		"a disk behind a port":      {"q35", root + bridges("pcie-root-port", 4, 1, 2) + disk(1, 0), Slots{Express: true, Most: 239, Easily: 239, Free: 3}},
		"a video card on the root":  {"q35", root + on("video", "", 0, 1), Slots{Express: true, Most: 232, Easily: 232}},
		"the chipset's own":         {"q35", root + on("controller", "type='sata'", 0, 31), Slots{Express: true, Most: 240, Easily: 240}},
		"many switches":             {"q35", root + bridges("pcie-switch-upstream-port", 20, 1, 2), Slots{Express: true, Most: 80, Easily: 80}},
		"i440fx, empty":             {"pc-i440fx-9.2", "<controller type='pci' index='0' model='pci-root'/>", Slots{Most: 309, Easily: 30}},
		"pc":                        {"pc", "", Slots{Most: 309, Easily: 30}},
		"a video card and a disk":   {"pc", on("video", "", 0, 2) + disk(0, 3) + on("controller", "type='usb'", 0, 1), Slots{Most: 307, Easily: 28}},
		"VFs are not counted":       {"pc", vfOf(0, 4) + on("hostdev", "mode='subsystem' type='pci'", 0, 5), Slots{Most: 309, Easily: 30}},
		"addresses that are no PCI": {"pc", "<disk><address type='drive' bus='0'/></disk>" + on("disk", "", 999, 2), Slots{Most: 309, Easily: 30}},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := ParseTuning(domain("<os><type machine='" + c.machine + "'>hvm</type></os><devices>" + c.devices + "</devices>"))
			if err != nil {
				t.Fatal(err)
			}
			c.want.Machine = c.machine
			if diff := cmp.Diff(c.want, g.Slots); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if err := g.TakesFailover(); (err == nil) != c.want.Express || err != nil && !errors.Is(err, vf.ErrInvalid) {
				t.Errorf("failover: %v", err)
			}
		})
	}
}

// A VF too many is refused, and the VF that the definition has already is not.
func TestSlotsBoundVFs(t *testing.T) {
	var b strings.Builder
	for n := 1; n <= 8; n++ {
		fmt.Fprintf(&b, "<hostdev mode='subsystem' type='pci'><source><address bus='%d' slot='0' function='0'/></source><alias name='ua-culvert-net%[1]d'/></hostdev>", n)
	}
	crowd := ""
	for slot := 1; slot < 30; slot++ { // one slot is left, of 8 ports
		crowd += on("video", "", 0, slot)
	}
	g, err := ParseTuning(domain("<os><type machine='q35'>hvm</type></os><devices>" + crowd + b.String() + "</devices>"))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.TakesVF("net8"); err != nil {
		t.Error(err)
	}
	if err := g.TakesVF("net9"); err == nil || !strings.Contains(err.Error(), "machine q35 has room for 8 beside the guest's own") {
		t.Error(err)
	}
}
