package guest

import (
	"encoding/xml"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// span is a part of a text; empty when there is none.
type span struct{ from, to int64 }

// parts has the positions, in a definition's text, of the parts that Culvert changes.
type parts struct {
	uuid     int64 // behind </uuid>
	metadata span  // <metadata>, whole
	inside   int64 // where </metadata> begins; 0 for <metadata/>
	ours     span  // our element in it
	entries  []entry
	move     Move
	devices  int64 // where </devices> begins
}

// partsOf finds the parts in a definition's text, and reads our element.
func partsOf(text []byte) (p parts, err error) {
	dec := xml.NewDecoder(strings.NewReader(string(text)))
	var path []xml.Name
	at := func(names ...string) bool {
		return len(path) == len(names)+1 && slices.EqualFunc(path[1:], names, func(n xml.Name, s string) bool { return n == xml.Name{Local: s} })
	}
	begun := int64(0) // of the element at depth two
	for {
		before := dec.InputOffset()
		token, err := dec.Token()
		if err != nil {
			return p, nil //nolint:nilerr // Parse has read it to its end, and said what is wrong
		}
		switch t := token.(type) {
		case xml.StartElement:
			if at("metadata") && t.Name.Space == Namespace {
				if err := p.readOurs(dec, t); err != nil {
					return p, err
				}
				p.ours = span{before, dec.InputOffset()}
				continue
			}
			path = append(path, t.Name)
			if len(path) == 2 {
				begun = before
			}
		case xml.EndElement:
			after := dec.InputOffset()
			switch {
			case at("uuid"):
				p.uuid = after
			case at("metadata") && before == after:
				p.metadata = span{begun, after}
			case at("metadata"):
				p.metadata, p.inside = span{begun, after}, before
			case at("devices") && before < after: // not <devices/>
				p.devices = before
			}
			if path = path[:len(path)-1]; len(path) > 0 {
				continue
			}
			if p.uuid == 0 {
				return p, errors.New("<uuid> is missing")
			}
			return p, nil
		}
	}
}

// readOurs reads our element.
func (p *parts) readOurs(dec *xml.Decoder, start xml.StartElement) error {
	if p.ours.to != 0 {
		return fmt.Errorf("there are two elements of the namespace %s: take one of them out", Namespace)
	}
	var n node
	err := dec.DecodeElement(&n, &start)
	if err != nil {
		return fmt.Errorf("<%s>: %w", start.Name.Local, err)
	}
	p.entries, p.move, err = entriesOf(n)
	return err
}

// edit is a change of a text.
type edit struct {
	span
	text string
}

// addDevice returns the edit that puts one more device in.
func (p parts) addDevice(xml string) (edit, error) {
	if p.devices == 0 {
		return edit{}, errors.New("<devices> is missing or empty")
	}
	return edit{span{p.devices, p.devices}, indentDevice(xml)}, nil
}

// editSettings returns the edit that writes the entries and the Move into our element. Without any
// of them, it removes the element.
func (p parts) editSettings(entries []entry) edit {
	ours := settingsXML(entries, p.move)
	if len(entries) == 0 && p.move == (Move{}) {
		return edit{p.ours, ""}
	}
	whole := "<metadata>\n    " + ours + "\n  </metadata>"
	switch {
	case p.ours.to != 0:
		return edit{p.ours, ours}
	case p.inside != 0:
		return edit{span{p.inside, p.inside}, "  " + ours + "\n  "}
	case p.metadata.to != 0:
		return edit{p.metadata, whole}
	}
	return edit{span{p.uuid, p.uuid}, "\n  " + whole}
}

// applyEdits makes the changes, which do not overlap.
func applyEdits(text string, edits ...edit) string {
	slices.SortFunc(edits, func(a, b edit) int { return int(b.from - a.from) })
	for _, e := range edits {
		text = text[:e.from] + e.text + text[e.to:]
	}
	return text
}

// indentDevice makes the device look as virsh dumpxml would print it before the
// </devices> that follows.
func indentDevice(device string) string {
	lines := strings.Split(strings.TrimSuffix(device, "\n"), "\n")
	return "  " + strings.Join(lines, "\n    ") + "\n  "
}
