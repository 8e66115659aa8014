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

	"github.com/culvert-net/culvert/internal/excerpt"
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

	places []span // of the Uses, in text
	text   []byte
	brief  *briefWants // in place of places and text
}

// Use is one device that passes a PCI function to the guest, or will.
type Use struct {
	Way Way
	// PCI is zero if libvirt chooses a function of a network when the guest starts, or if Err is set
	// and the address is what cannot be read.
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
	// Err is the reason why a part of the element that concerns the VF cannot be read, with the
	// element and its line; nil if all of them were read. The other fields have what was read.
	Err error
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

// Parse reads a domain's XML, as virsh dumpxml prints it and hooks get it. It reads each device by
// itself: a device that cannot be read has the reason in Use.Err, and the others are not affected.
// The error, which wraps vf.ErrInvalid, is about the name, the UUID, or the text as a whole.
func Parse(text []byte) (Definition, error) {
	d, err := readDefinition(text)
	if err == nil {
		err = d.checkIdentity()
	}
	if err != nil {
		return Definition{}, fmt.Errorf("the guest's definition: %w: %w", vf.ErrInvalid, err)
	}
	return d, nil
}

// ParseUses reads the devices of a domain's XML, also of one whose name or UUID Parse refuses. The
// error, which wraps vf.ErrInvalid, is about the text as a whole.
func ParseUses(text []byte) ([]Use, error) {
	d, err := readDefinition(text)
	if err != nil {
		return nil, fmt.Errorf("the guest's definition: %w: %w", vf.ErrInvalid, err)
	}
	return d.Uses, nil
}

func (d Definition) checkIdentity() error {
	if !isName(d.Name) {
		return fmt.Errorf("<name> %s: want one of at most %d printable characters", excerpt.Quote(d.Name), longestGuestName)
	}
	if !uuidForm.MatchString(d.UUID) {
		return fmt.Errorf("<uuid> %s of guest %s: want one as virsh dumpxml prints it; a guest that is not defined yet has none: define it first", excerpt.Quote(d.UUID), d.Name)
	}
	return nil
}

// readDefinition reads the name, the UUID and the devices. It passes over all other elements.
func readDefinition(text []byte) (Definition, error) {
	d := Definition{text: text}
	if len(text) > longest {
		return d, fmt.Errorf("it has %d bytes; want at most %d", len(text), longest)
	}
	dec := xml.NewDecoder(bytes.NewReader(text))
	for depth := 0; ; {
		from := dec.InputOffset()
		line, _ := dec.InputPos()
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return d, errors.New("it is empty: want what virsh dumpxml prints")
		}
		if err != nil {
			return d, err
		}
		switch t := token.(type) {
		case xml.StartElement:
			switch {
			case depth == 0 && t.Name.Local != "domain":
				return d, fmt.Errorf("<%s> at line %d: want <domain>", excerpt.Line(t.Name.Local), line)
			case depth == 0 || depth == 1 && t.Name == xml.Name{Local: "devices"}:
				depth++
			case depth == 1:
				err = d.readProperty(dec, t)
			default:
				err = d.readDevice(dec, t, from, line)
			}
			if err != nil {
				return d, err
			}
		case xml.EndElement:
			if depth--; depth == 0 {
				return d, nil
			}
		}
	}
}

// readProperty reads a child of <domain>.
func (d *Definition) readProperty(dec *xml.Decoder, start xml.StartElement) error {
	var value string
	switch start.Name {
	case xml.Name{Local: "name"}:
		err := dec.DecodeElement(&value, &start)
		d.Name = strings.TrimSpace(value)
		return err
	case xml.Name{Local: "uuid"}:
		err := dec.DecodeElement(&value, &start)
		d.UUID = strings.ToLower(strings.TrimSpace(value))
		return err
	}
	return dec.Skip()
}

// readDevice reads a child of <devices>, which begins at an offset in the text and at a line.
func (d *Definition) readDevice(dec *xml.Decoder, start xml.StartElement, from int64, line int) error {
	switch {
	case start.Name == xml.Name{Local: "disk"}:
		uses, err := readDisk(dec, line)
		for _, u := range uses {
			d.Uses, d.places = append(d.Uses, u), append(d.places, span{from, dec.InputOffset()})
		}
		return err
	case start.Name != xml.Name{Local: "interface"} && start.Name != xml.Name{Local: "hostdev"}:
		return dec.Skip()
	}
	var e element
	if err := dec.DecodeElement(&e, &start); err != nil {
		return err
	}
	if u, passes := e.readUse(line); passes {
		d.Uses, d.places = append(d.Uses, u), append(d.places, span{from, dec.InputOffset()})
	}
	return nil
}
