package lease

import (
	"net/netip"
	"slices"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// Place is where a VF is: its PF, which controls it, and its own address.
type Place struct {
	PF    vf.PCIAddr
	VF    vf.PCIAddr
	Index int
}

// AdminSteps returns step.AdminChanges of the VF at p.
func AdminSteps(p Place, have, want vf.Admin) []step.Step {
	return step.AdminChanges(p.PF, p.Index, have, want)
}

// AttachSteps returns the steps that bring a clean VF to the state that its lease wants. The PF's
// settings come first, so that the owner never sends a frame under other settings. A new MAC or
// driver needs the driver bound anew, since VF drivers read the admin MAC when they bind
// (lab-facts, trap 4). With detect, addresses of IPv6 undergo duplicate address detection.
func AttachSteps(p Place, rec journal.Record, detect bool) []step.Step {
	w := rec.Lease.Wanted
	admin := w.Over(rec.Baseline.Admin)
	out := AdminSteps(p, rec.Baseline.Admin, admin)
	newMAC := admin.MAC != rec.Baseline.Admin.MAC
	if newMAC {
		out = append(out, step.SetVFMAC{PF: p.PF, Index: p.Index, MAC: admin.MAC})
	}
	if w.Driver == vf.DriverVFIO {
		if rec.Baseline.Driver != vf.DriverVFIO {
			out = append(out, step.Unbind{VF: p.VF}, step.Bind{VF: p.VF, Driver: vf.DriverVFIO})
		}
		return out
	}
	if newMAC {
		out = append(out, step.Unbind{VF: p.VF}, step.Bind{VF: p.VF})
	}
	return append(out, podSteps(p, rec, detect)...)
}

// podSteps returns the steps that move the netdevice to the pod's netns and set it up there.
func podSteps(p Place, rec journal.Record, detect bool) []step.Step {
	w, ns := rec.Lease.Wanted, rec.Lease.Netns
	out := []step.Step{step.Move{VF: p.VF, To: ns, Name: w.Interface}}
	if bond := BondOf(rec); bond != "" {
		out = append(out, GuardSteps(p, rec)...) // the bond brings the member up
		return append(out, step.Enslave{VF: p.VF, Netns: ns, Bond: bond})
	}
	if w.MTU != nil && *w.MTU != rec.Baseline.MTU {
		out = append(out, step.SetMTU{VF: p.VF, Netns: ns, MTU: *w.MTU})
	}
	out = append(out, GuardSteps(p, rec)...) // before the owner can send
	out = append(out, step.SetUp{VF: p.VF, Netns: ns, Up: true})
	return append(out, AddressSteps(p, rec, detect)...)
}

// AddressSteps returns the steps that add the lease's addresses and routes. The wait for the
// results of duplicate address detection comes last, for all addresses at once.
func AddressSteps(p Place, rec journal.Record, detect bool) (out []step.Step) {
	w, ns := rec.Lease.Wanted, rec.Lease.Netns
	if w.Driver == vf.DriverVFIO {
		return nil
	}
	var detected []netip.Prefix
	for _, a := range w.Addresses {
		s := step.AddAddress{VF: p.VF, Netns: ns, Bond: BondOf(rec), Address: a.Prefix, Detect: detect && needsDetection(a.Prefix.Addr())}
		if s.Detect {
			detected = append(detected, a.Prefix)
		}
		out = append(out, s)
	}
	for _, r := range w.Routes {
		out = append(out, step.AddRoute{VF: p.VF, Netns: ns, Bond: BondOf(rec), Route: r})
	}
	if len(detected) > 0 {
		out = append(out, step.DetectDuplicates{VF: p.VF, Netns: ns, Bond: BondOf(rec), Addresses: detected})
	}
	return out
}

// ResetSteps returns the steps that bring a VF from any state st back to its baseline. They undo
// an attach at any point, and clean up after any owner. rebind demands that the driver is bound
// anew. This needs neither the netns nor its path: the kernel removes the netdevice wherever it
// is, and makes a new one on the host (I8). Changed attributes of the netdevice are mended in
// this way.
//
// The VF leaves its owner first and loses the owner's VLAN after that, so that
// a pod that still runs never sends a frame outside its VLAN.
//
// One round may leave a difference that appears only after a bind (an MTU, a name). The caller
// reads the VF back and calls ResetSteps again.
func ResetSteps(p Place, b vf.Baseline, st vf.State, rebind bool) []step.Step {
	lost := b.Name != "" && st.Link == nil
	tuned := st.Link != nil && len(b.Attributes.Diff(st.Link.Attributes)) > 0
	if rebind || lost || tuned || !b.IsComplete(st) || st.Driver != b.Driver || st.Admin.MAC != b.Admin.MAC {
		return rebindSteps(p, b, st)
	}
	var out []step.Step
	if st.Link != nil {
		out = homeSteps(p, b, *st.Link)
	}
	return append(out, AdminSteps(p, st.Admin, st.Settle(b.Admin))...)
}

func rebindSteps(p Place, b vf.Baseline, st vf.State) []step.Step {
	var out []step.Step
	if st.Driver != "" {
		out = append(out, step.Unbind{VF: p.VF})
	}
	out = append(out, AdminSteps(p, st.Admin, st.Settle(b.Admin))...)
	if st.Admin.MAC != b.Admin.MAC && !b.Admin.MAC.IsZero() {
		out = append(out, step.SetVFMAC{PF: p.PF, Index: p.Index, MAC: b.Admin.MAC})
	}
	if b.Driver != "" {
		driver := vf.DriverDefault
		if b.Driver == vf.DriverVFIO {
			driver = vf.DriverVFIO
		}
		out = append(out, step.Bind{VF: p.VF, Driver: driver})
	}
	return out
}

// homeSteps returns the steps that bring a netdevice back to the host's netns under its own name.
// A move to another netns drops addresses and routes.
func homeSteps(p Place, b vf.Baseline, l vf.Link) []step.Step {
	var out []step.Step
	ns := l.Netns
	if l.Promisc || l.AllMulti {
		out = append(out, step.ClearPromisc{VF: p.VF, Netns: ns})
	}
	if l.Up && (!b.Up || ns != "" || l.Name != b.Name) {
		out = append(out, step.SetUp{VF: p.VF, Netns: ns})
	}
	if l.MTU != b.MTU {
		out = append(out, step.SetMTU{VF: p.VF, Netns: ns, MTU: b.MTU})
	}
	if l.MAC != b.LinkMAC {
		out = append(out, step.SetLinkMAC{VF: p.VF, Netns: ns, MAC: b.LinkMAC})
	}
	switch {
	case ns != "":
		out = append(out, step.Move{VF: p.VF, From: ns, Name: b.Name})
	default:
		for _, a := range l.Addrs {
			out = append(out, step.DelAddress{VF: p.VF, Address: a})
		}
		if l.Name != b.Name {
			out = append(out, step.Rename{VF: p.VF, Name: b.Name})
		}
	}
	if b.Up && (ns != "" || !l.Up || l.Name != b.Name) {
		out = append(out, step.SetUp{VF: p.VF, Up: true})
	}
	return out
}

// WithoutGuard returns the state without the guard, which pins the lease's addresses and not those
// of a later plugin.
func WithoutGuard(st vf.State) vf.State {
	if st.Link != nil {
		link := *st.Link
		link.Guard = nil
		st.Link = &link
	}
	return st
}

// GuardSteps returns the step that sets the guard of a lease to its addresses.
func GuardSteps(p Place, rec journal.Record) []step.Step {
	if rec.Lease.Wanted.Guard == "" {
		return nil
	}
	return []step.Step{step.SetGuard{VF: p.VF, Netns: rec.Lease.Netns, Guard: rec.Lease.Wanted.GuardOver(rec.Baseline)}}
}

// MissingSteps returns the steps that add the addresses and routes of a lease that are missing. An
// interface that was down has lost its routes, and its addresses of IPv6. It does not add those
// that the owner had removed before, which are in own. There are no such steps for a member of a
// bond, which keeps its addresses and routes.
func MissingSteps(p Place, rec journal.Record, l vf.Link, broken, own []vf.Difference) (out []step.Step) {
	if rec.Lease.Bond != nil {
		return nil
	}
	wasDown := slices.ContainsFunc(broken, func(d vf.Difference) bool { return d.Attribute == "up" })
	isIn := func(all []vf.Difference, attribute, want string) bool {
		return slices.ContainsFunc(all, func(d vf.Difference) bool { return d.Attribute == attribute && d.Want == want })
	}
	isBroken := func(attribute, want string) bool {
		return isIn(broken, attribute, want) || wasDown && !isIn(own, attribute, want)
	}
	for _, s := range AddressSteps(p, rec, false) {
		switch s := s.(type) {
		case step.AddAddress:
			if !slices.Contains(l.Addrs, s.Address) && isBroken("address", s.Address.String()) {
				out = append(out, s)
			}
		case step.AddRoute:
			if !s.Route.IsIn(l.Routes) && isBroken("route", s.Route.String()) {
				out = append(out, s)
			}
		}
	}
	return out
}
