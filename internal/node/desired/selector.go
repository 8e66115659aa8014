package desired

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/strictyaml"
	"github.com/culvert-net/culvert/internal/vf"
)

// Selector matches a VF when every list that is not empty has a value that
// does.
//
// drivers selects by the driver that a VF has as a netdevice, also while another
// driver is bound to it. The pool decides the binding (deviceType), so the binding
// must not decide the pool: a VF would leave its pool as soon as it is prepared for
// it.
//
// Culvert reads the netdevice driver from the VF when one is bound. Otherwise it
// derives it from the PF's driver (igb has igbvf). Where it can do neither, the
// selector matches. In a pool of deviceType vfio-pci the value vfio-pci matches every
// VF, since the pool itself binds that driver.
//
// In a pool of the device plugin's own file, drivers selects by the driver that is
// bound to the VF. A VF without a driver counts as a netdevice, since the kernel is
// about to bind its driver again.
type Selector struct {
	Vendors      []string
	Devices      []string
	Drivers      []string
	PCIAddresses []vf.PCIAddr
	PFNames      []Part[string] // a name of the PF, or a path.Match pattern; in a pool that is AsBound only a name
	RootDevices  []Part[vf.PCIAddr]
	LinkTypes    []string // only ether, which every VF has
	// ACPIIndexes are the firmware's own numbers of functions
	// (/sys/bus/pci/devices/*/acpi_index).
	ACPIIndexes []uint32
	// IsRDMA wants a VF that has an RDMA device, whose nodes it is given out with.
	IsRDMA bool
	// NeedVhostNet selects nothing: VFs that this selector chose are given out
	// with /dev/vhost-net and /dev/net/tun.
	NeedVhostNet bool
}

// Part is a PF and some of its VFs; no Indexes means all of them.
type Part[T any] struct {
	PF      T
	Indexes []Range
}

// Range is VF indexes, First and Last included.
type Range struct{ First, Last int }

func (p Part[T]) containsVF(index int) bool {
	return len(p.Indexes) == 0 || slices.ContainsFunc(p.Indexes, func(r Range) bool { return r.First <= index && index <= r.Last })
}

var selectorKeys = []string{"vendors", "devices", "drivers", "pciAddresses", "acpiIndexes", "pfNames", "rootDevices", "linkTypes", "isRdma", "needVhostNet"}

// unserved has the selectors of the device plugin that Culvert knows and does not serve yet, with
// the next step for each.
var unserved = map[string]string{
	"auxTypes":    "leave it out; subfunctions are not given out",
	"ddpProfiles": "leave it out, and choose the PFs that have the profile by pfNames",
	"pKeys":       "leave it out; infiniband is not served",
	"vdpaType":    "leave it out; VFs are given out as netdevice or vfio-pci",
}

func (r *reader) readSelectors(v at) []Selector {
	if v.Kind == yaml.MappingNode || strictyaml.IsNull(v) {
		if strictyaml.IsNull(v) || len(v.Content) == 0 {
			return nil
		}
		return []Selector{r.readSelector(v)}
	}
	var all []Selector
	for _, item := range r.ReadItems(v, "a map of selectors, or a list of such maps") {
		all = append(all, r.readSelector(item))
	}
	return all
}

func (r *reader) readSelector(v at) Selector {
	var s Selector
	refused := slices.Sorted(maps.Keys(unserved))
	fields, ok := r.ReadFields(v, slices.Concat(selectorKeys, refused)...)
	if !ok {
		return s
	}
	for _, key := range refused {
		if f, ok := fields[key]; ok && !isHarmless(f) {
			r.AddMistake(f, "%s: not served yet: %s", r.NameValue(f), unserved[key])
		}
	}
	if f, ok := fields["vendors"]; ok {
		s.Vendors = readList(r, f, hexForm)
		r.warnOfNumbers(f)
	}
	if f, ok := fields["devices"]; ok {
		s.Devices = readList(r, f, hexForm)
		r.warnOfNumbers(f)
	}
	if f, ok := fields["drivers"]; ok {
		s.Drivers = readList(r, f, vfDriverForm)
	}
	if f, ok := fields["pciAddresses"]; ok {
		s.PCIAddresses = readList(r, f, pciForm)
	}
	if f, ok := fields["acpiIndexes"]; ok {
		s.ACPIIndexes = readList(r, f, acpiIndexForm)
	}
	if f, ok := fields["isRdma"]; ok && !isHarmless(f) {
		s.IsRDMA = r.ReadBool(f)
	}
	if f, ok := fields["needVhostNet"]; ok {
		s.NeedVhostNet = r.ReadBool(f)
	}
	if f, ok := fields["pfNames"]; ok {
		form := partNameForm
		if r.Lenient {
			form = partTextForm
		}
		s.PFNames = readParts(r, f, form)
		r.warnOfNames(f, s.PFNames)
		warnOfRepeats(r, f, s.PFNames, strings.EqualFold)
	}
	if f, ok := fields["rootDevices"]; ok {
		s.RootDevices = readParts(r, f, partPCIForm)
		warnOfRepeats(r, f, s.RootDevices, func(a, b vf.PCIAddr) bool { return a == b })
	}
	if f, ok := fields["linkTypes"]; ok {
		s.LinkTypes = r.readLinkTypes(f)
	}
	return s
}

// warnOfNumbers warns of IDs without quotes in a file of the device plugin: that plugin leaves the
// entry out, since it reads them as numbers.
func (r *reader) warnOfNumbers(v at) {
	if !r.Lenient {
		return
	}
	items := []at{v}
	if v.Kind == yaml.SequenceNode {
		items = r.ReadItems(v, "a list")
	}
	for _, item := range items {
		if item.Kind == yaml.ScalarNode && (item.Tag == "!!int" || item.Tag == "!!float") {
			r.AddWarning(item, "%s is a number, read as its digits: write it in quotes, or the device plugin leaves the entry out", strictyaml.NameKey(item.Value))
		}
	}
}

// warnOfNames warns of a value of pfNames that can be no name, such as a regular expression: the
// device plugin compares whole names (deviceSelectors.go, getItem).
func (r *reader) warnOfNames(v at, names []Part[string]) {
	for _, n := range names {
		if r.Lenient && !canBeName(n.PF) {
			r.AddWarning(v, "%s matches no PF, since whole names are compared: write each name of a PF, optionally with VF indexes: #0,2-7", excerpt.Quote(n.PF))
		}
	}
}

// warnOfRepeats warns of a PF that a list of the device plugin's file names again: that plugin reads
// only the first value about a PF.
func warnOfRepeats[T any](r *reader, v at, parts []Part[T], same func(a, b T) bool) {
	for i, p := range parts {
		if r.Lenient && slices.ContainsFunc(parts[:i], func(q Part[T]) bool { return same(p.PF, q.PF) }) {
			r.AddWarning(v, "%v is named again, and only its first value counts: write one value, such as %v#0,2-7", p.PF, p.PF)
		}
	}
}

// readLinkTypes reads a list of link types. The device plugin takes VFs of any of them, so its file
// is served if ether is among them.
func (r *reader) readLinkTypes(v at) []string {
	if !r.Lenient {
		return readList(r, v, linkTypeForm)
	}
	var ether []string
	var others []at
	for _, item := range r.ReadItemsOrOne(v, "a list of link types") {
		if t, err := parseLinkType(item.Value); err == nil && item.Kind == yaml.ScalarNode {
			ether = []string{t}
			continue
		}
		others = append(others, item)
	}
	for _, o := range others {
		if ether == nil {
			r.Reject(o, linkTypeForm.want)
			continue
		}
		r.AddWarning(o, "%s: ignored, since VFs are given out as ether only", r.NameValue(o))
	}
	return ether
}

// isHarmless reports whether a selector requires nothing, such as isRdma: false or ddpProfiles: [].
func isHarmless(v at) bool {
	return strictyaml.IsNull(v) || (v.Kind == yaml.ScalarNode && (v.Value == "false" || v.Value == "")) ||
		(v.Kind == yaml.SequenceNode && len(v.Content) == 0)
}

// readParts reads values such as enp1s0f0#0,2-7: a PF, then optionally # and the
// indexes of some of its VFs.
func readParts[T any](r *reader, v at, f form[T]) []Part[T] {
	var all []Part[T]
	for _, item := range r.ReadItemsOrOne(v, "a list of "+f.want+", each optionally with VF indexes: #0,2-7") {
		if p, ok := readPart(r, item, f); ok {
			all = append(all, p)
		}
	}
	return all
}

func readPart[T any](r *reader, item at, f form[T]) (p Part[T], ok bool) {
	pf, indexes, some := strings.Cut(item.Value, "#")
	var err error
	if p.PF, err = f.parse(pf); err != nil || item.Kind != yaml.ScalarNode {
		r.Reject(item, f.want+", optionally with VF indexes: #0,2-7")
		return p, false
	}
	if some {
		if p.Indexes, err = parseIndexes(indexes, r.Lenient); err != nil {
			r.AddMistake(item, "%s: %s", r.NameValue(item), err)
		}
	}
	return p, true
}

// parseIndexes reads 0,2-7. Errors describe a valid form. overlap admits a VF that is named twice.
func parseIndexes(s string, overlap bool) ([]Range, error) {
	var all []Range
	for _, part := range strings.Split(s, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		first, err1 := parseNumber(low, 0, maxVFs-1)
		last, err2 := parseNumber(high, 0, maxVFs-1)
		switch {
		case err1 != nil || err2 != nil:
			return nil, fmt.Errorf("%q after # is no VF index: want indexes and ranges such as #0,2-7", part)
		case first > last:
			return nil, fmt.Errorf("a range counts up: write %d-%d", last, first)
		}
		for _, r := range all {
			if !overlap && first <= r.Last && r.First <= last {
				return nil, fmt.Errorf("VF %d is named twice", max(first, r.First))
			}
		}
		all = append(all, Range{first, last})
	}
	return all, nil
}
