package guest

import (
	"encoding/xml"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/guest/moving"
	"github.com/culvert-net/culvert/internal/suggest"
	"github.com/culvert-net/culvert/internal/vf"
)

// Namespace is the namespace of our element in a definition's <metadata>.
const Namespace = moving.Namespace

// ourElement is the name of our element and ourEntry that of an entry in it. Both are written with
// ourPrefix.
const (
	ourElement = "guest"
	ourEntry   = "vf"
	ourPrefix  = "culvert:"
)

// longestPool bounds the name of a pool with its prefix, as Kubernetes bounds that of a resource.
const longestPool = 253 + len("/") + 63

// entry is the part of the metadata about one device.
type entry struct {
	Device string     // the device's name; or
	PCI    vf.PCIAddr // its VF, for a device without a name by Culvert
	Pool   string
	Apart  string // another device, on whose PF the VF must not be
	Spec   vf.Spec
}

// node is an element with all of its content, so that entriesOf overlooks no part of it.
type node struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Text    string     `xml:",chardata"`
	Nodes   []node     `xml:",any"`
}

// entriesOf reads our element.
func entriesOf(n node) ([]entry, Move, error) {
	move, err := moving.Of(withoutNamespaces(n.Attrs))
	if n.XMLName.Local != ourElement || strings.TrimSpace(n.Text) != "" || err != nil {
		return nil, move, fmt.Errorf("<%s%s>: want <%s%s> with nothing in it but <%s%s>", ourPrefix, n.XMLName.Local, ourPrefix, ourElement, ourPrefix, ourEntry)
	}
	var out []entry
	had := map[deviceKey]bool{} // a definition may have thousands of entries
	for _, child := range n.Nodes {
		e, err := entryOf(child)
		if err != nil {
			return nil, move, err
		}
		if had[e.device()] {
			return nil, move, fmt.Errorf("%s is there twice: take one of them out", e)
		}
		had[e.device()] = true
		out = append(out, e)
	}
	return out, move, nil
}

// withoutNamespaces returns the attributes without declarations of namespaces.
func withoutNamespaces(all []xml.Attr) (out []xml.Attr) {
	for _, a := range all {
		if a.Name.Space != "xmlns" && a.Name.Local != "xmlns" {
			out = append(out, a)
		}
	}
	return out
}

// deviceKey is the device of an entry.
type deviceKey struct {
	name string
	pci  vf.PCIAddr
}

func (e entry) device() deviceKey { return deviceKey{e.Device, e.PCI} }

// String names the entry in messages.
func (e entry) String() string {
	if e.Device != "" {
		return fmt.Sprintf("<%s%s device='%s'>", ourPrefix, ourEntry, e.Device)
	}
	return fmt.Sprintf("<%s%s pci='%s'>", ourPrefix, ourEntry, e.PCI)
}

func entryOf(n node) (e entry, err error) {
	if n.XMLName != (xml.Name{Space: Namespace, Local: ourEntry}) || strings.TrimSpace(n.Text) != "" || len(n.Nodes) > 0 {
		return e, fmt.Errorf("<%s> in <%s%s>: want <%s%s .../> of the namespace %s, with nothing in it", n.XMLName.Local, ourPrefix, ourElement, ourPrefix, ourEntry, Namespace)
	}
	attrs := withoutNamespaces(n.Attrs)
	for _, a := range attrs { // first, for the messages about the others
		if a.Name.Space != "" {
			return e, fmt.Errorf("<%s%s>: attribute %s has a prefix: want none", ourPrefix, ourEntry, a.Name.Local)
		}
		if a.Name.Local == "device" || a.Name.Local == "pci" {
			err = errors.Join(err, e.setAttribute(a.Name.Local, a.Value))
		}
	}
	if err == nil && (e.Device == "") == e.PCI.IsZero() {
		err = errors.New("want one of device, the name of a device that culvert vm xml made, and pci, the address of a VF")
	}
	if err != nil {
		return e, fmt.Errorf("<%s%s>: %w", ourPrefix, ourEntry, err)
	}
	for _, a := range attrs {
		if err := e.setAttribute(a.Name.Local, a.Value); err != nil {
			return e, fmt.Errorf("%s: %w", e, err)
		}
	}
	if err := e.checkWhole(); err != nil {
		return e, fmt.Errorf("%s: %w", e, err)
	}
	return e, nil
}

// attributeNames returns the attributes of an entry. Settings have the names of the flags of
// culvert vm xml.
func attributeNames() []string {
	return []string{"device", "pci", "pool", "apart", "mac", "vlan", "vlan-qos", "vlan-proto", "spoofchk", "trust", "link-state", "min-tx-rate", "max-tx-rate"}
}

// setAttribute reads one attribute.
func (e *entry) setAttribute(name, value string) (err error) {
	s := &e.Spec
	switch name {
	case "device":
		e.Device = value
		return CheckName(value)
	case "pci":
		e.PCI, err = vf.ParsePCIAddr(value)
	case "pool":
		e.Pool = value
		if value == "" || len(value) > longestPool {
			err = fmt.Errorf("%s: want prefix/name or name", excerpt.Quote(value))
		}
	case "apart":
		e.Apart = value
		return CheckName(value)
	case "mac":
		var mac vf.MAC
		mac, err = vf.ParseUnicastMAC(value)
		s.MAC = &mac
	case "vlan", "vlan-qos", "vlan-proto":
		err = e.setVLAN(name, value)
	case "link-state":
		var state vf.LinkState
		state, err = vf.ParseLinkState(value)
		s.LinkState = &state
	case "min-tx-rate":
		s.MinTxRate, err = parseRate(value)
	case "max-tx-rate":
		s.MaxTxRate, err = parseRate(value)
	default:
		if to := s.Switch(vf.Setting(name)); to != nil {
			*to, err = onOff(value)
			break
		}
		return fmt.Errorf("attribute %s is not known%s: want %s", name, suggest.DidYouMean(name, attributeNames()), strings.Join(attributeNames(), ", "))
	}
	if err != nil {
		return fmt.Errorf("%s %w", name, err)
	}
	return nil
}

func onOff(s string) (*bool, error) {
	on := s == "on"
	if !on && s != "off" {
		return nil, fmt.Errorf("%q: want on or off", s)
	}
	return &on, nil
}

func parseRate(s string) (*uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%q: want Mb/s, a whole number", s)
	}
	mbps := uint32(n)
	return &mbps, nil
}

// setVLAN reads a part of the VLAN.
func (e *entry) setVLAN(name, value string) error {
	v := vf.VLAN{Proto: vf.Dot1Q}
	if e.Spec.VLAN != nil {
		v = *e.Spec.VLAN
	}
	number := func(least, most uint64) (uint64, error) {
		n, err := strconv.ParseUint(value, 10, 16)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("%q: want %d to %d", value, least, most)
		}
		return n, nil
	}
	var (
		n   uint64
		err error
	)
	switch name {
	case "vlan":
		n, err = number(1, vf.MaxVLAN)
		v.ID = uint16(n)
	case "vlan-qos":
		n, err = number(0, vf.MaxQoS)
		v.QoS = uint8(n)
	default:
		v.Proto, err = vf.ParseVLANProto(value)
	}
	e.Spec.VLAN = &v
	return err
}

// checkWhole checks attributes that depend on each other.
func (e *entry) checkWhole() error {
	if v := e.Spec.VLAN; v != nil && v.ID == 0 {
		return fmt.Errorf("vlan-qos and vlan-proto belong to a VLAN: give vlan, 1 to %d, too", vf.MaxVLAN)
	}
	if e.Apart != "" && e.Apart == e.Device {
		return fmt.Errorf("apart %q: want another device of the guest", e.Apart)
	}
	for _, m := range e.Spec.Mistakes() {
		return fmt.Errorf("%s %s: %s", m.Setting.Flag(), m.Value, m.Want)
	}
	return nil
}

// formatXML writes the entry.
func (e entry) formatXML() string {
	var b strings.Builder
	b.WriteString("<" + ourPrefix + ourEntry)
	add := func(name, value string) { writeAttribute(&b, name, value) }
	s := e.Spec
	add("device", e.Device)
	add("pci", e.PCI.String())
	add("pool", e.Pool)
	add("apart", e.Apart)
	if s.MAC != nil {
		add("mac", s.MAC.String())
	}
	if s.VLAN != nil {
		add("vlan", strconv.Itoa(int(s.VLAN.ID)))
		if s.VLAN.QoS != 0 {
			add("vlan-qos", strconv.Itoa(int(s.VLAN.QoS)))
		}
		if s.VLAN.Proto == vf.Dot1AD {
			add("vlan-proto", s.VLAN.Proto.String())
		}
	}
	for _, name := range vf.Switches() {
		if on := s.Switch(name); on != nil && *on != nil {
			add(string(name), map[bool]string{true: "on", false: "off"}[**on])
		}
	}
	if s.LinkState != nil {
		add("link-state", s.LinkState.String())
	}
	if s.MinTxRate != nil {
		add("min-tx-rate", strconv.FormatUint(uint64(*s.MinTxRate), 10))
	}
	if s.MaxTxRate != nil {
		add("max-tx-rate", strconv.FormatUint(uint64(*s.MaxTxRate), 10))
	}
	return b.String() + "/>"
}

// writeAttribute writes an attribute, unless its value is empty.
func writeAttribute(b *strings.Builder, name, value string) {
	if value != "" {
		b.WriteString(" " + name + `="`)
		_ = xml.EscapeText(b, []byte(value)) // a Builder takes everything
		b.WriteByte('"')
	}
}

// settingsXML returns Culvert's element, as it stands in <metadata>.
func settingsXML(all []entry, m Move) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<%s%s xmlns:%s=\"%s\"", ourPrefix, ourElement, strings.TrimSuffix(ourPrefix, ":"), Namespace)
	for _, a := range m.Attributes() {
		writeAttribute(&b, a.Name.Local, a.Value)
	}
	b.WriteString(">\n")
	for _, e := range all {
		b.WriteString("      " + e.formatXML() + "\n")
	}
	return b.String() + "    </" + ourPrefix + ourElement + ">"
}

// withEntry returns the entries with e, in place of the entry of the same device if there is one.
func withEntry(all []entry, e entry) []entry {
	out := make([]entry, 0, len(all)+1)
	found := false
	for _, o := range all {
		if o.device() == e.device() {
			o, found = e, true
		}
		out = append(out, o)
	}
	if !found {
		out = append(out, e)
	}
	return out
}
