package guest

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/guest/moving"
	"github.com/culvert-net/culvert/internal/vf"
)

// Move is the mark of a guest that is on its way between two hosts.
type Move = moving.Move

// splitText returns the parts of the text; the error is about our part of the metadata.
func (d Definition) splitText() (parts, error) {
	p, err := partsOf(d.text)
	if err != nil {
		return p, fmt.Errorf("<metadata> of guest %s: %w: %w", d.Name, vf.ErrInvalid, err)
	}
	return p, nil
}

// Move returns the Move of the definition; the zero value when the guest is not moving.
func (d Definition) Move() (Move, error) {
	p, err := d.splitText()
	return p.move, err
}

// Marked returns the definition's text with another Move.
func (d Definition) Marked(m Move) (string, error) {
	p, err := d.splitText()
	if err != nil {
		return "", err
	}
	p.move = m
	return applyEdits(string(d.text), p.editSettings(p.entries)), nil
}

// Has returns the device of that name, and whether the definition has it.
func (d Definition) Has(device string) (Use, bool) {
	i := d.indexOf(device)
	if i < 0 {
		return Use{}, false
	}
	return d.Uses[i], true
}

// indexOf returns the index in Uses of the device of that name, -1 if there is none.
func (d Definition) indexOf(device string) int {
	return slices.IndexFunc(d.Uses, func(u Use) bool { return u.Named() && u.Name() == device })
}

// Without returns the definition's text without the device of that name and its entry in the
// metadata. A definition that has neither stays as it is.
func (d Definition) Without(device string) (string, error) {
	p, err := d.splitText()
	if err != nil {
		return "", err
	}
	var edits []edit
	rest := slices.DeleteFunc(slices.Clone(p.entries), func(e entry) bool { return e.Device == device })
	if len(rest) < len(p.entries) {
		edits = append(edits, p.editSettings(rest))
	}
	if at, found := d.placeOf(device); found {
		indented := int64(len(strings.TrimRight(string(d.text[:at.from]), " \t\n")))
		edits = append(edits, edit{span{indented, at.to}, ""})
	}
	return applyEdits(string(d.text), edits...), nil
}

// Replaced returns the definition's text with another VF for the device of that name. The device
// stays as it is otherwise, also at its address in the guest. The MAC address and the VLAN of dev
// must be those of the device. The way must not be Network: there the network names the VF.
func (d Definition) Replaced(dev Device) (string, error) {
	p, err := d.splitText()
	if err != nil {
		return "", err
	}
	at, found := d.placeOf(dev.Name)
	source, named := d.sourceAddress(at)
	if !found || !named {
		return "", fmt.Errorf("guest %s: device %s: %w among those that name a VF", d.Name, dev.Name, vf.ErrNotFound)
	}
	use, _ := d.Has(dev.Name)
	dev.Way = use.Way
	kind := ""
	if dev.Way == Interface {
		kind = "type='pci' "
	}
	a := formatAddress("", dev.PCI)
	address := fmt.Sprintf("<address %sdomain='%s' bus='%s' slot='%s' function='%s'/>", kind, a.Domain, a.Bus, a.Slot, a.Function)
	text := applyEdits(string(d.text), p.editSettings(withEntry(p.entries, dev.rememberedEntry())), edit{source, address})
	after, err := Parse([]byte(text))
	if err != nil {
		return "", err
	}
	u, _ := after.Has(dev.Name)
	return text, after.checkAgreement(u, dev)
}

// placeOf returns the position of the device of that name in the text.
func (d Definition) placeOf(device string) (span, bool) {
	i := d.indexOf(device)
	if i < 0 {
		return span{}, false
	}
	return d.places[i], true
}

// sourceAddress returns the position of the <address> in the <source> of the device at that place.
func (d Definition) sourceAddress(device span) (at span, found bool) {
	dec := xml.NewDecoder(strings.NewReader(string(d.text[device.from:device.to])))
	var path []string
	for {
		before := device.from + dec.InputOffset()
		token, err := dec.Token()
		if err != nil { // Parse has read it to its end
			return at, at.to > 0
		}
		switch t := token.(type) {
		case xml.StartElement:
			if path = append(path, t.Name.Local); slices.Equal(path[1:], []string{"source", "address"}) {
				at.from = before
			}
		case xml.EndElement:
			if slices.Equal(path[1:], []string{"source", "address"}) {
				at.to = device.from + dec.InputOffset()
			}
			path = path[:len(path)-1]
		}
	}
}

// Device returns the XML of the device of that name as the definition has it, so that libvirt finds
// the same device; false if there is none.
func (d Definition) Device(name string) (string, bool) {
	at, found := d.placeOf(name)
	if !found {
		return "", false
	}
	return string(d.text[at.from:at.to]), true
}

// Files returns the paths that the definition names and that its guest cannot start
// without: disks, file systems, kernel and firmware.
func (d Definition) Files() ([]string, error) {
	var doc struct {
		OS struct {
			Kernel string `xml:"kernel"`
			Initrd string `xml:"initrd"`
			DTB    string `xml:"dtb"`
			Loader string `xml:"loader"`
			NVRAM  string `xml:"nvram"`
		} `xml:"os"`
		Sources []source `xml:"devices>disk>source"`
		Folders []source `xml:"devices>filesystem>source"`
	}
	if err := xml.Unmarshal(d.text, &doc); err != nil {
		return nil, fmt.Errorf("the definition of guest %s: %w: %w", d.Name, vf.ErrInvalid, err)
	}
	all := []string{doc.OS.Kernel, doc.OS.Initrd, doc.OS.DTB, doc.OS.Loader, doc.OS.NVRAM}
	for _, s := range append(doc.Sources, doc.Folders...) {
		all = append(all, s.File, s.Dev, s.Dir)
	}
	for i, path := range all {
		all[i] = strings.TrimSpace(path)
	}
	slices.Sort(all)
	all = slices.DeleteFunc(slices.Compact(all), func(path string) bool { return !strings.HasPrefix(path, "/") })
	for _, path := range all {
		if strings.ContainsAny(path, "\n\x00") {
			return nil, fmt.Errorf("path %q in the definition of guest %s: %w: want one line", path, d.Name, vf.ErrInvalid)
		}
	}
	return all, nil
}

// TPMState returns the path of the state of the guest's emulated TPM on its host; "" without such a
// TPM. A live migration carries the state to the other host.
func (d Definition) TPMState() string {
	var doc struct {
		TPMs []struct {
			Type   string `xml:"type,attr"`
			Source struct {
				Path string `xml:"path,attr"`
			} `xml:"source"`
		} `xml:"devices>tpm>backend"`
	}
	if err := xml.Unmarshal(d.text, &doc); err != nil { // Parse has read it
		return ""
	}
	for _, b := range doc.TPMs {
		if b.Type == "emulator" {
			return cmp.Or(b.Source.Path, "/var/lib/libvirt/swtpm/"+d.UUID)
		}
	}
	return ""
}

// source is the source of a disk or a file system. A source on the network has none of these.
type source struct {
	File string `xml:"file,attr"`
	Dev  string `xml:"dev,attr"`
	Dir  string `xml:"dir,attr"`
}

// CanMove returns the reasons why the guest's devices cannot move to another host, nil if they can:
// each passes a VF, and Culvert made it. An interface of a libvirt network that is no VF of this
// host is no obstacle.
func (d Definition) CanMove() error {
	var errs []error
	for _, u := range d.Uses {
		var err error
		switch {
		case u.Way == Network && u.VF().IsZero():
			continue // a network of libvirt like any other, or one that chooses on the other host
		case u.Err != nil:
			errs = append(errs, fmt.Errorf("guest %s: %w: mend it (virsh edit %[1]s), or take it out", d.Name, u.Err))
			continue
		case u.Way == Network:
			err = fmt.Errorf("is of network %s, which has a VF of this host alone: culvert vm detach it, and attach it in another way", u.Network)
		case u.Named():
			continue
		case u.Managed:
			err = errors.New("was put there by hand, with managed='yes', so libvirt and not Culvert binds it: take it out, and culvert vm attach a VF in its place")
		default:
			err = errors.New("was put there by hand: take it out, and culvert vm attach a VF in its place")
		}
		errs = append(errs, fmt.Errorf("device %s of guest %s (PCI function %s) %w", labelUse(u), d.Name, cmp.Or(u.VF().String(), "none"), err))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", vf.ErrInvalid, errors.Join(errs...))
}
