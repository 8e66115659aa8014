package guest

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// Device passes one VF to a guest. Its VF is bound to vfio-pci by Culvert, so it
// is not managed='yes': libvirt then leaves the driver alone, and refuses to
// start a guest whose VF Culvert has not prepared.
type Device struct {
	Name string
	Way  Way
	PCI  vf.PCIAddr
	// MAC and VLAN are the settings that the PF holds for the VF. The device's element repeats
	// them, since libvirt sets the VF to the values in the element, unless the way is Hostdev.
	MAC  vf.MAC
	VLAN vf.VLAN
	// Pool is the VF's pool, and Spec has the requested settings. With puts those settings into
	// the metadata that the device's element cannot express.
	Pool string
	Spec vf.Spec
	// Apart is the name of another device of the guest, on whose PF the VF must not be: two VFs of
	// one bond. With puts it into the metadata, so that a migration keeps them apart.
	Apart string
	// Failover is the alias of the virtio interface for which this one is the
	// fast path; empty for none.
	Failover string
}

// unmanaged is libvirt's word for a device whose driver libvirt does not bind.
const unmanaged = "no"

// XML returns the device, as it stands below <devices> and as virsh attach-device
// takes it.
func (d Device) XML() (string, error) {
	out := element{XMLName: xml.Name{Local: "interface"}, Type: "hostdev", Managed: unmanaged, Driver: &driverElement{"vfio"}, Alias: aliasElement{aliasOf(d.Name)}}
	if d.Failover != "" {
		out.Teaming = &teamingElement{"transient", d.Failover}
	}
	if d.Way == Hostdev {
		out.XMLName.Local, out.Mode, out.Type = "hostdev", "subsystem", "pci"
		out.Source.Address = formatAddress("", d.PCI)
		return marshalXML(out)
	}
	out.MAC = &macElement{d.MAC.String()}
	if d.VLAN.ID != 0 {
		out.VLAN = &vlanElement{Tags: []tagElement{{strconv.Itoa(int(d.VLAN.ID))}}}
	}
	if d.Way == Network { // whether it is managed, and its driver, are the network's
		out.Type, out.Managed, out.Driver = "network", "", nil
		out.Source.Network = networkOf(d.PCI)
		return marshalXML(out)
	}
	out.Source.Address = formatAddress("pci", d.PCI)
	return marshalXML(out)
}

// network is a network whose only device is a PCI function of the host.
type network struct {
	XMLName xml.Name `xml:"network"`
	Name    string   `xml:"name"`
	Forward struct {
		Mode    string          `xml:"mode,attr"`
		Managed string          `xml:"managed,attr"`
		Driver  driverElement   `xml:"driver"`
		Address *addressElement `xml:"address"`
	} `xml:"forward"`
}

// NetworkXML returns the network that a device of Way Network names, for virsh net-define. The
// network has this one VF, so libvirt has no choice: the ledger decides which VF a guest gets.
func (d Device) NetworkXML() (string, error) {
	n := network{Name: networkOf(d.PCI)}
	n.Forward.Mode, n.Forward.Managed, n.Forward.Driver, n.Forward.Address = "hostdev", unmanaged, driverElement{"vfio"}, formatAddress("pci", d.PCI)
	return marshalXML(n)
}

// networkOf returns the name of the network whose only VF is pci.
func networkOf(pci vf.PCIAddr) string {
	return "culvert-" + nameOf(pci)
}

func marshalXML(v any) (string, error) {
	out, err := xml.MarshalIndent(v, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write libvirt's XML: %w", err)
	}
	return string(out) + "\n", nil
}

// VF returns the PCI function that the device passes, also through a network of Culvert's; zero if
// libvirt chooses it.
func (u Use) VF() vf.PCIAddr {
	digits, ours := strings.CutPrefix(u.Network, "culvert-")
	if !ours {
		return u.PCI
	}
	parts := strings.Split(digits, "-")
	if len(parts) != 4 {
		return vf.PCIAddr{}
	}
	pci, err := vf.ParsePCIAddr(strings.Join(parts[:3], ":") + "." + parts[3])
	if err != nil {
		return vf.PCIAddr{}
	}
	return pci
}

// checkAgreement returns an error if a device in the definition differs from the VF that its guest
// got: libvirt would change the VF's settings when the guest starts.
func (d Definition) checkAgreement(u Use, dev Device) error {
	var what string
	switch {
	case u.Err != nil:
		return fmt.Errorf("guest %s has a device %s already: %w: mend it (virsh edit %[1]s), or take it out", d.Name, dev.Name, u.Err)
	case u.VF() != dev.PCI:
		what = fmt.Sprintf("has VF %s, not %s", cmp.Or(u.VF().String(), "none"), dev.PCI)
	case u.MAC != nil && *u.MAC != dev.MAC:
		what = fmt.Sprintf("has MAC address %s, not %s", u.MAC, dev.MAC)
	case u.VLAN != nil && u.VLAN.ID != dev.VLAN.ID:
		what = fmt.Sprintf("has VLAN %s, not %s", u.VLAN, dev.VLAN)
	default:
		return nil
	}
	return fmt.Errorf("guest %s has a device %s already (alias %s), which %s: %w: take it out of the definition, or choose another name",
		d.Name, dev.Name, u.Alias, what, vf.ErrHeld)
}

// With returns the definition's text with one more device, and its settings in the
// metadata. A device of that name that the definition has already stays as it is, if
// it passes the same VF with the same settings; its settings in the metadata are
// replaced. Nothing else is changed.
func (d Definition) With(dev Device) (string, error) {
	p, err := partsOf(d.text)
	if err != nil {
		return "", fmt.Errorf("<metadata> of guest %s: %w: %w", d.Name, vf.ErrInvalid, err)
	}
	for _, u := range d.Uses {
		switch {
		case u.Alias == aliasOf(dev.Name):
			dev.Way = u.Way // the way decides which settings the metadata can leave out
			return applyEdits(string(d.text), p.editSettings(withEntry(p.entries, dev.rememberedEntry()))), d.checkAgreement(u, dev)
		case u.VF() == dev.PCI:
			return "", fmt.Errorf("guest %s has VF %s already, as %s: %w: take that device out of the definition", d.Name, dev.PCI, labelUse(u), vf.ErrHeld)
		}
	}
	if dev.Failover != "" && !d.hasAlias(dev.Failover) {
		return "", fmt.Errorf("guest %s has no interface with alias %s to fail over to: %w: give its virtio interface <teaming type='persistent'/> and <alias name='%s'/>",
			d.Name, dev.Failover, vf.ErrInvalid, dev.Failover)
	}
	text, err := dev.XML()
	if err != nil {
		return "", err
	}
	device, err := p.addDevice(text)
	if err != nil {
		return "", fmt.Errorf("guest %s: %w: %w", d.Name, vf.ErrInvalid, err)
	}
	return applyEdits(string(d.text), p.editSettings(withEntry(p.entries, dev.rememberedEntry())), device), nil
}

// hasAlias looks for an alias in the text, since the interface that has it is not in Uses.
func (d Definition) hasAlias(name string) bool {
	text := string(d.text)
	return strings.Contains(text, "<alias name='"+name+"'") || strings.Contains(text, `<alias name="`+name+`"`)
}
