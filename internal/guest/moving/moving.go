// Package moving is the mark of a guest that is on its way between two hosts, in the <metadata> of
// its definition. Package guest writes and removes it. culvertd and libvirt's hook refuse to start
// a guest that has it. The hook does not ask culvertd for it, so the package imports nothing of
// Culvert's.
package moving

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
)

// Namespace is the namespace of Culvert's element in a definition's <metadata>, by which virsh
// metadata finds the element. libvirt keeps one element of each namespace.
const Namespace = "https://culvert.dev/guest"

// Move says that a guest is on its way between two hosts, both of which may have its definition
// meanwhile. It is stored in Culvert's element of the metadata. A guest whose definition has a Move
// does not start.
type Move struct {
	From string // in the definition of the host to which it goes
	To   string // in the definition of the host that it leaves
	// Autostart reports that the guest starts with its host when it is not on its way.
	// libvirt's own autostart is off until the guest has arrived, so the mark keeps it.
	Autostart bool
}

// The attributes of a Move, and their prefix.
const (
	prefix     = "moving-"
	movingFrom = prefix + "from"
	movingTo   = prefix + "to"
	autostart  = prefix + "autostart" // "on", or not there
)

// Of reads the Move from the attributes of Culvert's element. The error names an unknown attribute;
// the Move is correct nevertheless. Autostart alone makes no Move.
func Of(attrs []xml.Attr) (m Move, err error) {
	for _, a := range attrs {
		switch a.Name {
		case xml.Name{Local: movingFrom}:
			m.From = a.Value
		case xml.Name{Local: movingTo}:
			m.To = a.Value
		case xml.Name{Local: autostart}:
			m.Autostart = a.Value == "on"
		default:
			err = fmt.Errorf("attribute %s is not known", a.Name.Local)
		}
	}
	if m.From == "" && m.To == "" {
		return Move{}, err
	}
	return m, err
}

// Attributes returns the attributes of Culvert's element that hold the Move. The caller does not
// write an attribute with an empty value.
func (m Move) Attributes() []xml.Attr {
	starts := ""
	if m.Autostart {
		starts = "on"
	}
	return []xml.Attr{
		{Name: xml.Name{Local: movingFrom}, Value: m.From}, {Name: xml.Name{Local: movingTo}, Value: m.To},
		{Name: xml.Name{Local: autostart}, Value: starts},
	}
}

// Read reads the Move of a definition; the zero value if the guest is not on its way. It reads
// nothing else. It returns an error if the text has the prefix of the attributes and is not
// well-formed XML, since there may be a mark.
func Read(definition []byte) (Move, error) {
	if !bytes.Contains(definition, []byte(prefix)) {
		return Move{}, nil
	}
	dec := xml.NewDecoder(bytes.NewReader(definition))
	var path []xml.Name
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return Move{}, nil
		}
		if err != nil {
			return Move{}, err
		}
		switch t := token.(type) {
		case xml.StartElement:
			isOurs := len(path) == 2 && path[1] == xml.Name{Local: "metadata"} && t.Name.Space == Namespace
			if m, _ := Of(t.Attr); isOurs && m != (Move{}) {
				return m, nil
			}
			path = append(path, t.Name)
		case xml.EndElement:
			if path = path[:len(path)-1]; len(path) == 0 {
				return Move{}, nil
			}
		}
	}
}

// Refusal returns the reason why a guest with a Move does not start, and what ends that; empty for
// the zero value.
func (m Move) Refusal(guest string) string {
	also := ""
	if m.Autostart {
		also = ", and virsh autostart " + guest
	}
	switch {
	case m.To != "":
		return fmt.Sprintf("guest %s is on its way to host %s: culvert vm migrate, asked again here, brings it there; if %s never got it, take moving-to out of its <metadata> (virsh edit)%s", guest, m.To, m.To, also)
	case m.From != "":
		return fmt.Sprintf("guest %s is on its way here from host %s: culvert vm migrate, asked again there, ends that; if %s is lost, take moving-from out of its <metadata> (virsh edit)%s", guest, m.From, m.From, also)
	}
	return ""
}
