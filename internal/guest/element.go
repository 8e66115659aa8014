package guest

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"strconv"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/vf"
)

// element has the parts of an <interface> or a <hostdev> that are about a PCI function, as they are
// read and as they are written. Each of them is a text: encoding/xml gives up a whole definition
// for one number that it cannot read.
type element struct {
	XMLName xml.Name
	Mode    string          `xml:"mode,attr,omitempty"`
	Type    string          `xml:"type,attr"`
	Managed string          `xml:"managed,attr,omitempty"`
	MAC     *macElement     `xml:"mac"`
	Source  sourceElement   `xml:"source"`
	VLAN    *vlanElement    `xml:"vlan"`
	Driver  *driverElement  `xml:"driver"`
	Teaming *teamingElement `xml:"teaming"`
	Alias   aliasElement    `xml:"alias"`
}

type (
	macElement struct {
		Address string `xml:"address,attr"`
	}
	driverElement struct {
		Name string `xml:"name,attr"`
	}
	sourceElement struct {
		Network string          `xml:"network,attr,omitempty"`
		Address *addressElement `xml:"address"`
	}
	// addressElement is the address of a PCI function on the host.
	addressElement struct {
		Type     string `xml:"type,attr,omitempty"`
		Domain   string `xml:"domain,attr"`
		Bus      string `xml:"bus,attr"`
		Slot     string `xml:"slot,attr"`
		Function string `xml:"function,attr"`
	}
	vlanElement struct {
		Trunk string       `xml:"trunk,attr,omitempty"`
		Tags  []tagElement `xml:"tag"`
	}
	tagElement struct {
		ID string `xml:"id,attr"`
	}
	teamingElement struct {
		Type       string `xml:"type,attr"`
		Persistent string `xml:"persistent,attr"`
	}
	aliasElement struct {
		Name string `xml:"name,attr"`
	}
)

// passesAs returns the way in which the element passes a PCI function to the guest, or may pass
// one; false if it passes none.
func (e element) passesAs() (Way, bool) {
	switch name := e.XMLName.Local; {
	case name == "hostdev":
		return Hostdev, e.Type == "pci" && (e.Mode == "" || e.Mode == "subsystem")
	case name == "interface" && e.Type == "network":
		return Network, true
	case name == "interface" && e.Type == "hostdev":
		return Interface, e.Source.Address == nil || e.Source.Address.Type != "usb"
	}
	return "", false
}

// readUse reads the element, which begins at that line; false if it passes no PCI function. Use.Err
// is set if a part that concerns the VF cannot be read. Where libvirt chooses a VF from a network,
// or uses none, the element's MAC address and VLAN do not concern it: the network may have trunks
// of Open vSwitch.
func (e element) readUse(line int) (Use, bool) {
	way, passes := e.passesAs()
	if !passes {
		return Use{}, false
	}
	u := Use{Way: way, Alias: e.Alias.Name, Managed: e.Managed == "yes"}
	if e.Teaming != nil {
		u.Failover = e.Teaming.Persistent
	}
	var err, macErr, vlanErr error
	if way == Network {
		u.Network = e.Source.Network
	} else {
		u.PCI, err = e.Source.Address.parseAddress("<source>")
	}
	if way != Hostdev {
		u.MAC, macErr = e.MAC.parseMAC()
		u.VLAN, vlanErr = e.VLAN.parseVLAN()
	}
	err = cmp.Or(err, macErr, vlanErr)
	if err != nil && (way != Network || !u.VF().IsZero()) {
		u.Err = fmt.Errorf("<%s> %s at line %d cannot be read: %w", e.XMLName.Local, labelUse(u), line, err)
	}
	return u, true
}

// labelUse returns the name of a device in errors.
func labelUse(u Use) string {
	switch {
	case u.Alias != "":
		return excerpt.Line(u.Alias)
	case u.MAC != nil:
		return u.MAC.String()
	}
	return "without alias"
}

// parseMAC returns nil without a <mac>.
func (m *macElement) parseMAC() (*vf.MAC, error) {
	if m == nil {
		return nil, nil //nolint:nilnil // there is no address, and that is no mistake
	}
	mac, err := vf.ParseMAC(excerpt.Line(m.Address)) // shorter for the error; no address is so long
	if err != nil {
		return nil, fmt.Errorf("<mac>: %w", err)
	}
	return &mac, nil
}

// parseVLAN returns VLAN 0 without a <vlan>: the VF has no VLAN.
func (v *vlanElement) parseVLAN() (*vf.VLAN, error) {
	switch {
	case v != nil && (v.Trunk == "yes" || len(v.Tags) > 1):
		return nil, errors.New("<vlan>: want one tag: a VF has no trunk")
	case v == nil || len(v.Tags) == 0:
		return &vf.VLAN{}, nil
	}
	id, err := strconv.ParseUint(v.Tags[0].ID, 10, 16)
	if err != nil || id > vf.MaxVLAN {
		return nil, fmt.Errorf("<tag id=%s> of <vlan>: want 0 to %d", excerpt.Quote(v.Tags[0].ID), vf.MaxVLAN)
	}
	return &vf.VLAN{ID: uint16(id)}, nil
}

// parseAddress reads the address. Its numbers are hexadecimal with a 0x before them, octal with a
// 0, or decimal, as for libvirt (virXMLPropUInt of base 0). of is the element that has the address.
func (a *addressElement) parseAddress(of string) (vf.PCIAddr, error) {
	if a == nil {
		return vf.PCIAddr{}, fmt.Errorf("<address> of %s is missing", of)
	}
	if a.Type != "" && a.Type != "pci" {
		return vf.PCIAddr{}, fmt.Errorf("<address> of %s: type is %s: want pci", of, excerpt.Quote(a.Type))
	}
	part := func(name, s string, bits int) (uint64, error) {
		n, err := strconv.ParseUint(s, 0, bits)
		switch {
		case s == "":
			return 0, fmt.Errorf("<address> of %s: %s is missing", of, name)
		case err != nil:
			return 0, fmt.Errorf("<address> of %s: %s is %s: want 0 to 0x%x", of, name, excerpt.Quote(s), uint64(1)<<bits-1)
		}
		return n, nil
	}
	domain, err1 := part("domain", cmp.Or(a.Domain, "0"), 32)
	bus, err2 := part("bus", a.Bus, 8)
	slot, err3 := part("slot", a.Slot, 5)
	function, err4 := part("function", a.Function, 3)
	if err := cmp.Or(err1, err2, err3, err4); err != nil {
		return vf.PCIAddr{}, err
	}
	return vf.PCIAddr{Domain: uint32(domain), Bus: uint8(bus), Device: uint8(slot), Function: uint8(function)}, nil
}

// formatAddress returns the address as libvirt prints it. kind is its attribute type, empty for
// none.
func formatAddress(kind string, p vf.PCIAddr) *addressElement {
	return &addressElement{
		Type: kind, Domain: fmt.Sprintf("0x%04x", p.Domain), Bus: fmt.Sprintf("0x%02x", p.Bus),
		Slot: fmt.Sprintf("0x%02x", p.Device), Function: fmt.Sprintf("0x%x", p.Function),
	}
}
