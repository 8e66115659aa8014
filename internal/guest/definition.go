package guest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"libvirt.org/go/libvirtxml"

	"github.com/culvert-net/culvert/internal/vf"
)

// longest bounds a definition, in bytes. The definition of a guest with a thousand devices has half
// of that.
const longest = 512 << 10

// Definition is a guest as its XML describes it.
type Definition struct {
	Name string
	UUID string
	// Uses are the VFs that the guest uses, and other PCI devices that it passes through. The XML
	// does not say which of them are VFs.
	Uses []Use

	text []byte
}

// Use is one device that passes a PCI function to the guest, or will.
type Use struct {
	Way Way
	// PCI is zero if libvirt chooses a function of a network when the guest starts.
	PCI     vf.PCIAddr
	Network string // of Way Network
	Alias   string
	// MAC and VLAN are the values that libvirt sets when the guest starts; nil with Hostdev.
	MAC  *vf.MAC
	VLAN *vf.VLAN
	// Failover is the alias of the interface for which this one is the fast path.
	Failover string
	// Managed says that libvirt, and not Culvert, binds the function's drivers.
	Managed bool
}

// document has the parts of a domain that Parse reads.
type document struct {
	XMLName xml.Name `xml:"domain"`
	Name    string   `xml:"name"`
	UUID    string   `xml:"uuid"`
	Devices struct {
		Interfaces []passed `xml:"interface"`
		Hostdevs   []passed `xml:"hostdev"`
	} `xml:"devices"`
}

// passed says how an <interface> or a <hostdev> uses a PCI function; its use is nil if the
// element uses none. An element that names no VF stays unread: libvirt has kinds of interfaces
// and devices that libvirtxml of this version may not know.
type passed struct {
	use *Use
	err error // why the use is unknown
}

func (v *passed) UnmarshalXML(d *xml.Decoder, start xml.StartElement) error {
	var u Use
	kind := attributeOf(start, "type")
	switch {
	case start.Name.Local == "interface" && (kind == "hostdev" || kind == "network"):
		var i libvirtxml.DomainInterface
		if err := d.DecodeElement(&i, &start); err != nil {
			return explainElement(d, start, err)
		}
		u, v.err = useOfInterface(&i)
	case start.Name.Local == "hostdev" && kind == "pci" && attributeOf(start, "mode") == "subsystem":
		var h libvirtxml.DomainHostdev
		if err := d.DecodeElement(&h, &start); err != nil {
			return explainElement(d, start, err)
		}
		u, v.err = useOfHostdev(&h)
	default:
		return d.Skip()
	}
	if v.use = &u; v.err != nil {
		v.err = fmt.Errorf("<%s> %s: %w", start.Name.Local, labelUse(u), v.err)
	}
	return nil
}

func attributeOf(start xml.StartElement, name string) string {
	for _, a := range start.Attr {
		if a.Name.Local == name && a.Name.Space == "" {
			return a.Value
		}
	}
	return ""
}

// explainElement names the element in which an error is.
func explainElement(d *xml.Decoder, start xml.StartElement, err error) error {
	line, _ := d.InputPos()
	return fmt.Errorf("<%s> that ends at line %d: %w", start.Name.Local, line, err)
}

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// longestGuestName bounds the name of a guest, in characters.
const longestGuestName = 128

// isName reports whether s may name a guest. It is stricter than libvirt, which takes anything but
// a slash and line ends: names stand in messages, tables and the ledger. It does not use a regular
// expression: one that repeats the class of printable characters 128 times takes 5 MB for as long
// as the program runs.
func isName(s string) bool {
	first, _ := utf8.DecodeRuneInString(s)
	return s != "" && utf8.RuneCountInString(s) <= longestGuestName && !unicode.Is(unicode.Z, first) &&
		!strings.ContainsFunc(s, func(r rune) bool { return r == '/' || unicode.Is(unicode.C, r) })
}

// Parse reads a domain's XML, as virsh dumpxml prints it and hooks get it. The
// error wraps vf.ErrInvalid.
func Parse(text []byte) (Definition, error) {
	d, err := parseDefinition(text)
	if err != nil {
		return Definition{}, fmt.Errorf("the guest's definition: %w: %w", vf.ErrInvalid, err)
	}
	return d, nil
}

func parseDefinition(text []byte) (Definition, error) {
	if len(text) > longest {
		return Definition{}, fmt.Errorf("it has %d bytes; want at most %d", len(text), longest)
	}
	var doc document
	dec := xml.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return Definition{}, errors.New("it is empty: want what virsh dumpxml prints")
		}
		return Definition{}, err
	}
	d := Definition{Name: strings.TrimSpace(doc.Name), UUID: strings.ToLower(strings.TrimSpace(doc.UUID)), text: text}
	if !isName(d.Name) {
		return d, fmt.Errorf("<name> %q: want one of at most %d printable characters", d.Name, longestGuestName)
	}
	if !uuidForm.MatchString(d.UUID) {
		return d, fmt.Errorf("<uuid> %q of guest %s: want one as virsh dumpxml prints it; a guest that is not defined yet has none: define it first", d.UUID, d.Name)
	}
	for _, v := range append(doc.Devices.Interfaces, doc.Devices.Hostdevs...) {
		if v.err != nil {
			return d, v.err
		}
		if v.use != nil {
			d.Uses = append(d.Uses, *v.use)
		}
	}
	return d, nil
}

// labelUse returns the name of a device in errors.
func labelUse(u Use) string {
	switch {
	case u.Alias != "":
		return u.Alias
	case u.MAC != nil:
		return u.MAC.String()
	}
	return "without alias"
}

func useOfInterface(i *libvirtxml.DomainInterface) (u Use, err error) {
	u.Way, u.Managed = Interface, i.Managed == "yes"
	if i.Alias != nil {
		u.Alias = i.Alias.Name
	}
	if i.Teaming != nil {
		u.Failover = i.Teaming.Persistent
	}
	if i.MAC != nil {
		mac, err := vf.ParseMAC(i.MAC.Address)
		if err != nil {
			return u, fmt.Errorf("<mac>: %w", err)
		}
		u.MAC = &mac
	}
	if u.VLAN, err = vlanOf(i.VLan); err != nil {
		return u, err
	}
	if s := i.Source; s != nil && s.Network != nil {
		u.Way, u.Network = Network, s.Network.Network
		return u, nil
	}
	if i.Source == nil || i.Source.Hostdev == nil || i.Source.Hostdev.PCI == nil {
		return u, errors.New("<source>: want the <address type='pci'> of a VF")
	}
	u.PCI, err = addressOf(i.Source.Hostdev.PCI.Address)
	return u, err
}

// vlanOf reads a <vlan>; without one the VF has no VLAN.
func vlanOf(v *libvirtxml.DomainInterfaceVLan) (*vf.VLAN, error) {
	switch {
	case v == nil || len(v.Tags) == 0:
		return &vf.VLAN{}, nil
	case v.Trunk == "yes" || len(v.Tags) > 1:
		return nil, errors.New("<vlan>: want one tag: a VF has no trunk")
	case v.Tags[0].ID > vf.MaxVLAN:
		return nil, fmt.Errorf("<tag id='%d'> of <vlan>: want 0 to %d", v.Tags[0].ID, vf.MaxVLAN)
	}
	return &vf.VLAN{ID: uint16(v.Tags[0].ID)}, nil
}

func useOfHostdev(h *libvirtxml.DomainHostdev) (u Use, err error) {
	u.Way, u.Managed = Hostdev, h.Managed == "yes"
	if h.Alias != nil {
		u.Alias = h.Alias.Name
	}
	pci := h.SubsysPCI
	if pci == nil || pci.Source == nil {
		return u, errors.New("<source>: want the <address> of a PCI device")
	}
	if pci.Teaming != nil {
		u.Failover = pci.Teaming.Persistent
	}
	u.PCI, err = addressOf(pci.Source.Address)
	return u, err
}

func addressOf(a *libvirtxml.DomainAddressPCI) (vf.PCIAddr, error) {
	if a == nil {
		return vf.PCIAddr{}, errors.New("<source>: <address> is missing")
	}
	part := func(name string, p *uint, most uint) (uint, error) {
		switch {
		case p == nil && name == "domain":
			return 0, nil
		case p == nil:
			return 0, fmt.Errorf("<address> of <source>: %s is missing", name)
		case *p > most:
			return 0, fmt.Errorf("<address> of <source>: %s is 0x%x: want at most 0x%x", name, *p, most)
		}
		return *p, nil
	}
	domain, err1 := part("domain", a.Domain, 1<<32-1)
	bus, err2 := part("bus", a.Bus, 0xff)
	slot, err3 := part("slot", a.Slot, 0x1f)
	function, err4 := part("function", a.Function, 7)
	pci := vf.PCIAddr{Domain: uint32(domain), Bus: uint8(bus), Device: uint8(slot), Function: uint8(function)}
	return pci, errors.Join(err1, err2, err3, err4)
}
