// Package lease knows what a lease means: the steps that bring a VF to the state that its lease wants,
// the steps back to the VF's baseline, and the differences of a VF from its lease. It reads and
// changes nothing.
package lease

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// BondOf returns the name of the bond's interface of which a leased VF is a member. It is empty
// for a VF of its own and for a VF of vfio.
func BondOf(rec journal.Record) string {
	if rec.Lease.Bond == nil || rec.Lease.Wanted.Driver == vf.DriverVFIO {
		return ""
	}
	return rec.Lease.Owner.Interface
}

// AddBondStep returns the step that makes the bond of a lease, without members.
func AddBondStep(rec journal.Record) step.Step {
	s := step.AddBond{Netns: rec.Lease.Netns, Name: BondOf(rec), Mark: rec.Lease.BondMark, Bond: *rec.Lease.Bond}
	if mtu := rec.Lease.Wanted.MTU; mtu != nil {
		s.MTU = *mtu
	}
	return s
}

// BondSteps returns the steps that complete a bond after all its members were added. If the network
// names a primary PF, the first member becomes the primary one.
func BondSteps(p Place, rec journal.Record, detect bool) []step.Step {
	bond, ns := BondOf(rec), rec.Lease.Netns
	if bond == "" {
		return nil
	}
	var out []step.Step
	if rec.Lease.Bond.Primary != "" {
		out = append(out, step.SetBondPrimary{VF: p.VF, Netns: ns, Bond: bond})
	}
	out = append(out, step.SetUp{VF: p.VF, Netns: ns, Bond: bond, Up: true})
	return append(out, AddressSteps(p, rec, detect)...)
}

// BondMembers returns rec and the other held records of its bond, in the order of their interface
// names. It leaves out members whose release has failed before.
func BondMembers(records []journal.Record, rec journal.Record) (out []journal.Record) {
	for _, r := range records {
		if r.ID == rec.ID || r.IsMemberWith(rec) && r.Held() && r.Attempts == 0 {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b journal.Record) int { return cmp.Compare(a.Lease.Wanted.Interface, b.Lease.Wanted.Interface) })
	return out
}

// Site is a VF's place, with the label of its PF for messages and the PF's driver.
type Site struct {
	Place
	Label  string
	Driver vf.Driver
	MTU    int // of the PF
}

// SiteOf returns the site of a recorded VF of a PF.
func SiteOf(pf vf.PF, rec journal.Record) Site {
	return Site{Place{PF: pf.PCI, VF: rec.PCI, Index: rec.ID.Index}, pf.Label(), vf.DriverOf(pf.Driver), pf.MTU}
}

// SameAttachment compares the two parts that identify an attachment: the owner's UID and the
// interface.
func SameAttachment(a, b vf.Owner) bool { return a.UID == b.UID && a.Interface == b.Interface }

// OnNetwork returns the network of a lease for the end of a message; it is empty if there is none.
func OnNetwork(rec journal.Record) string {
	if rec.Lease.Network == "" {
		return ""
	}
	return ", network " + rec.Lease.Network
}

// needsDetection reports whether an address undergoes duplicate address detection. Those of IPv4
// have none in the kernel. Nothing waits for a link-local one.
func needsDetection(a netip.Addr) bool { return a.Is6() && !a.IsLinkLocalUnicast() }
