package guest

import (
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// Want has a definition's wishes about one VF, from the device's element and from the metadata.
type Want struct {
	Device string // its name, or the VF's address if culvert vm xml did not make the device
	VF     vf.PCIAddr
	Pool   string // that the VF is of, where the definition says so
	Apart  string // the name of another device, on whose PF the VF must not be
	Spec   vf.Spec
	// Ours: culvert vm xml made the device, or the metadata has settings for it.
	Ours bool
	// Err is Use.Err. Where it is set, Spec is not all that the device wants, and VF is zero if the
	// address is what cannot be read.
	Err error
}

// Wants returns the wants for all VFs that the definition names, but not for VFs that libvirt
// will choose from a network. The error, which wraps vf.ErrInvalid, is about Culvert's part of
// the metadata and no other part of the definition.
func (d Definition) Wants() ([]Want, error) {
	if d.brief != nil {
		return d.brief.wants, d.brief.err
	}
	out, err := d.listWants()
	if err != nil {
		return nil, fmt.Errorf("<metadata> of guest %s: %w: %w", d.Name, vf.ErrInvalid, err)
	}
	return out, nil
}

func (d Definition) listWants() ([]Want, error) {
	p, err := partsOf(d.text)
	if err != nil {
		return nil, err
	}
	named, anyVF := map[vf.PCIAddr]bool{}, false
	for _, u := range d.Uses {
		named[u.VF()] = true
		anyVF = anyVF || u.MayBeAny()
	}
	of := map[deviceKey]int{} // the index of its entry
	for i, e := range p.entries {
		if !e.PCI.IsZero() && !named[e.PCI] && !anyVF {
			return nil, fmt.Errorf("%s: the definition has no such device: take the entry out, or mend its address", e)
		}
		of[e.device()] = i
	}
	var out []Want
	for _, u := range d.Uses {
		if u.VF().IsZero() && u.Err == nil {
			continue
		}
		w := Want{Device: u.Name(), VF: u.VF(), Spec: u.elementSpec(), Ours: u.Named(), Err: u.Err}
		for _, key := range []deviceKey{{name: w.Device}, {pci: w.VF}} { // of two entries, that of the VF counts
			if i, has := of[key]; has {
				if err := w.takeEntry(u.Way, p.entries[i]); err != nil {
					return nil, err
				}
			}
		}
		out = append(out, w)
	}
	return out, nil
}

// takeEntry adds the settings of an entry.
func (w *Want) takeEntry(way Way, e entry) error {
	if way != Hostdev && (e.Spec.MAC != nil || e.Spec.VLAN != nil) {
		return fmt.Errorf("%s: mac and vlan are said by the device's own <mac> and <vlan>: take them out of the entry", e)
	}
	own := w.Spec
	w.Pool, w.Apart, w.Spec, w.Ours = e.Pool, e.Apart, e.Spec, true
	if way != Hostdev {
		w.Spec.MAC, w.Spec.VLAN = own.MAC, own.VLAN
	}
	return nil
}

// Name returns the device's name: as culvert vm xml named it, or after its VF.
func (u Use) Name() string {
	if u.Named() {
		return strings.TrimPrefix(u.Alias, aliasOf(""))
	}
	return nameOf(u.VF())
}

// Named reports whether the device has a name that Culvert gave it.
func (u Use) Named() bool {
	name, ours := strings.CutPrefix(u.Alias, aliasOf(""))
	return ours && CheckName(name) == nil
}

// nameOf returns a name for a device that Culvert has not named.
func nameOf(pci vf.PCIAddr) string {
	return strings.NewReplacer(":", "-", ".", "-").Replace(pci.String())
}

// MayBe reports whether the device passes the PCI function at an address, or may pass it because
// its address cannot be read.
func (u Use) MayBe(pci vf.PCIAddr) bool { return u.VF() == pci || u.MayBeAny() }

// MayBeAny reports whether the address of the device cannot be read.
func (u Use) MayBeAny() bool { return u.Err != nil && u.VF().IsZero() }

// elementSpec returns the settings in the device's own element. Without <vlan> it sets no VLAN, as
// a clean VF has none.
func (u Use) elementSpec() (s vf.Spec) {
	s.MAC = u.MAC
	if u.VLAN != nil && u.VLAN.ID != 0 {
		s.VLAN = &vf.VLAN{ID: u.VLAN.ID, Proto: vf.Dot1Q}
	}
	return s
}

// Of returns the want for the device of that name; false when there is no such device, or when it
// takes any VF of a libvirt network. The error wraps vf.ErrInvalid: the device, or Culvert's part
// of the metadata, cannot be read.
func (d Definition) Of(name string) (Want, bool, error) {
	all, err := d.Wants()
	for _, w := range all {
		switch {
		case w.Device != name:
		case w.Err != nil:
			return Want{}, false, fmt.Errorf("guest %s: %w: %w: mend it (virsh edit %[1]s), or take it out", d.Name, vf.ErrInvalid, w.Err)
		default:
			return w, true, nil
		}
	}
	return Want{}, false, err
}

// rememberedEntry returns the entry with the settings that the device's element cannot express.
func (d Device) rememberedEntry() entry {
	e := entry{Device: d.Name, Pool: d.Pool, Apart: d.Apart, Spec: d.Spec}
	if d.Way != Hostdev {
		e.Spec.MAC, e.Spec.VLAN = nil, nil
	}
	return e
}
