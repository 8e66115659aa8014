package desired

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/vf"
)

// AllVFs as a PFSpec's or PFRule's VFs stands for as many as the PF can have.
const AllVFs = -1

// PFRule is one entry of pfs: it selects PFs by its fields, at least one of which is set and all of
// which must match, and has their wanted state.
type PFRule struct {
	Name   string // netdevice name or path.Match pattern
	MAC    vf.MAC // permanent address
	PCI    vf.PCIAddr
	Vendor string // four hexadecimal digits, lower case
	Device string
	Driver string

	// Policy is the policy that has the rule, and Priority the policy's. Merge sets them. Policy is
	// empty for a rule of host.yaml.
	Policy   string
	Priority int32

	// Want is the wanted state as declared; its VFs may be AllVFs.
	Want PFSpec
}

// PFSpec is the wanted state of one PF. ForPF returns it with VFs resolved.
type PFSpec struct {
	// VFs is the wanted number; it may exceed the PF's, which Check reports.
	VFs int
	// MTU in bytes; 0 leaves it alone. ForPF returns the larger one of a pool that has VFs of the PF.
	MTU int
	// VFMTU is the MTU of VFs whose pool has none; ForPF sets it.
	VFMTU int
	// Addresses are added to the PF's interface, beside other addresses. Culvert removes an address
	// that it added once the address is no longer wanted.
	Addresses []netip.Prefix
	// Autoprobe is the value that sriov_drivers_autoprobe has after Culvert's work.
	Autoprobe bool
	// NeedCarrier makes VFs only when the PF has carrier.
	NeedCarrier bool
	// Segment names the L2 segment that the PF is on; empty if it has no name.
	Segment vf.Segment
	// From is where the wish was written, e.g. "host.yaml:3", for messages.
	From string
}

// isZero reports whether nothing is wanted.
func (s PFSpec) isZero() bool { return reflect.DeepEqual(s, PFSpec{}) }

// describe names the wanted values by their keys, for messages about contradictions.
func (s PFSpec) describe() string {
	text := fmt.Sprintf("vfs %d", s.VFs)
	if s.VFs == AllVFs {
		text = "vfs max"
	}
	if s.MTU != 0 {
		text += fmt.Sprintf(", mtu %d", s.MTU)
	}
	if len(s.Addresses) > 0 {
		text += fmt.Sprintf(", addresses %s", excerpt.Join(s.Addresses))
	}
	text += fmt.Sprintf(", autoprobe %t, needCarrier %t", s.Autoprobe, s.NeedCarrier)
	if s.Segment != "" {
		text += fmt.Sprintf(", segment %s", s.Segment)
	}
	return text
}

// Check returns the parts of s that the PF can never have: more VFs or a larger MTU than it
// supports (vf.ErrInvalid).
func (s PFSpec) Check(pf vf.PF) error {
	var why string
	switch {
	case s.VFs > 0 && pf.TotalVFs == 0:
		why = fmt.Sprintf("%s wanted (%s), it can have none: SR-IOV is off in its firmware or not in its driver: switch it on, or write vfs: 0", vf.CountText(s.VFs), s.From)
	case s.VFs > pf.TotalVFs:
		why = fmt.Sprintf("%s wanted (%s), it can have %d: write vfs: %d or vfs: max", vf.CountText(s.VFs), s.From, pf.TotalVFs, pf.TotalVFs)
	case pf.MaxMTU != 0 && s.MTU > pf.MaxMTU:
		why = fmt.Sprintf("MTU %d wanted (%s), its driver allows %d at most", s.MTU, s.From, pf.MaxMTU)
	default:
		return nil
	}
	return vf.ObjectError{Object: "PF " + pf.Label(), Err: fmt.Errorf("%s: %w", why, vf.ErrInvalid)}
}

var pfKeys = []string{"name", "mac", "pciAddress", "vendor", "device", "driver", "vfs", "mtu", "addresses", "autoprobe", "needCarrier", "segment"}

func (r *reader) readPF(v at) PFRule {
	rule := PFRule{Want: PFSpec{Autoprobe: true, NeedCarrier: true, From: r.locationOf(v)}}
	fields, ok := r.ReadFields(v, pfKeys...)
	if !ok {
		return rule
	}
	read := func(key string, f func(at)) bool {
		field, ok := fields[key]
		if ok {
			f(field)
		}
		return ok
	}
	named := []bool{
		read("name", func(f at) { rule.Name = parseScalar(r, f, pfNameForm) }),
		read("mac", func(f at) { rule.MAC = parseScalar(r, f, pfMACForm) }),
		read("pciAddress", func(f at) { rule.PCI = parseScalar(r, f, pciForm) }),
		read("vendor", func(f at) { rule.Vendor = parseScalar(r, f, hexForm) }),
		read("device", func(f at) { rule.Device = parseScalar(r, f, hexForm) }),
		read("driver", func(f at) { rule.Driver = parseScalar(r, f, pfDriverForm) }),
	}
	r.requireName(v, named)
	if !read("vfs", func(f at) { rule.Want.VFs = parseScalar(r, f, vfsForm) }) {
		r.AddMistake(v, "vfs is missing: write how many, 0 for none, or max")
	}
	read("mtu", func(f at) { rule.Want.MTU = parseScalar(r, f, mtuForm) })
	read("addresses", func(f at) { rule.Want.Addresses = r.distinctAddresses(f, readList(r, f, hostAddressForm)) })
	read("autoprobe", func(f at) { rule.Want.Autoprobe = r.ReadBool(f) })
	read("needCarrier", func(f at) { rule.Want.NeedCarrier = r.ReadBool(f) })
	read("segment", func(f at) { rule.Want.Segment = parseScalar(r, f, segmentForm) })
	return rule
}

// requireName refuses a rule that names no PF.
func (r *reader) requireName(v at, named []bool) {
	if !slices.Contains(named, true) {
		r.AddMistake(v, "which PFs? Write name, mac, pciAddress, vendor, device or driver")
	}
}

// maxAddresses is how many addresses a PF may be given.
const maxAddresses = 64

// distinctAddresses refuses a list with an address twice, or with too many addresses.
func (r *reader) distinctAddresses(v at, all []netip.Prefix) []netip.Prefix {
	if len(all) > maxAddresses {
		r.AddMistake(v, "%d addresses are too many: at most %d", len(all), maxAddresses)
		return nil
	}
	seen := map[netip.Prefix]bool{}
	for _, a := range all {
		if a.IsValid() && seen[a] {
			r.AddMistake(v, "%s is there twice", a)
		}
		seen[a] = true
	}
	return all
}
