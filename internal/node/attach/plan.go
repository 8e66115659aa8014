package attach

import (
	"net/netip"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// place is where a VF is: its PF, which controls it, and its own address.
type place struct {
	pf    vf.PCIAddr
	pci   vf.PCIAddr
	index int
}

// adminSteps returns step.AdminChanges of the VF at p.
func adminSteps(p place, have, want vf.Admin) []step.Step {
	return step.AdminChanges(p.pf, p.index, have, want)
}

// attachSteps returns the steps that bring a clean VF to the state that its lease wants. The PF's
// settings come first, so that the owner never sends a frame under other settings. A new MAC or
// driver needs the driver bound anew, since VF drivers read the admin MAC when they bind
// (lab-facts, trap 4). With detect, addresses of IPv6 undergo duplicate address detection.
func attachSteps(p place, rec journal.Record, detect bool) []step.Step {
	w := rec.Lease.Wanted
	admin := w.Over(rec.Baseline.Admin)
	out := adminSteps(p, rec.Baseline.Admin, admin)
	newMAC := admin.MAC != rec.Baseline.Admin.MAC
	if newMAC {
		out = append(out, step.SetVFMAC{PF: p.pf, Index: p.index, MAC: admin.MAC})
	}
	if w.Driver == vf.DriverVFIO {
		if rec.Baseline.Driver != vf.DriverVFIO {
			out = append(out, step.Unbind{VF: p.pci}, step.Bind{VF: p.pci, Driver: vf.DriverVFIO})
		}
		return out
	}
	if newMAC {
		out = append(out, step.Unbind{VF: p.pci}, step.Bind{VF: p.pci})
	}
	return append(out, podSteps(p, rec, detect)...)
}

// podSteps returns the steps that move the netdevice to the pod's netns and set it up there.
func podSteps(p place, rec journal.Record, detect bool) []step.Step {
	w, ns := rec.Lease.Wanted, rec.Lease.Netns
	out := []step.Step{step.Move{VF: p.pci, To: ns, Name: w.Interface}}
	if bond := bondOf(rec); bond != "" {
		out = append(out, guardSteps(p, rec)...) // the bond brings the member up
		return append(out, step.Enslave{VF: p.pci, Netns: ns, Bond: bond})
	}
	if w.MTU != nil && *w.MTU != rec.Baseline.MTU {
		out = append(out, step.SetMTU{VF: p.pci, Netns: ns, MTU: *w.MTU})
	}
	out = append(out, guardSteps(p, rec)...) // before the owner can send
	out = append(out, step.SetUp{VF: p.pci, Netns: ns, Up: true})
	return append(out, addressSteps(p, rec, detect)...)
}

// addressSteps returns the steps that add the lease's addresses and routes. The wait for the
// results of duplicate address detection comes last, for all addresses at once.
func addressSteps(p place, rec journal.Record, detect bool) (out []step.Step) {
	w, ns := rec.Lease.Wanted, rec.Lease.Netns
	if w.Driver == vf.DriverVFIO {
		return nil
	}
	var detected []netip.Prefix
	for _, a := range w.Addresses {
		s := step.AddAddress{VF: p.pci, Netns: ns, Bond: bondOf(rec), Address: a.Prefix, Detect: detect && needsDetection(a.Prefix.Addr())}
		if s.Detect {
			detected = append(detected, a.Prefix)
		}
		out = append(out, s)
	}
	for _, r := range w.Routes {
		out = append(out, step.AddRoute{VF: p.pci, Netns: ns, Bond: bondOf(rec), Route: r})
	}
	if len(detected) > 0 {
		out = append(out, step.DetectDuplicates{VF: p.pci, Netns: ns, Bond: bondOf(rec), Addresses: detected})
	}
	return out
}

// resetSteps returns the steps that bring a VF from any state st back to its baseline. They undo
// an attach at any point, and clean up after any owner. rebind demands that the driver is bound
// anew. This needs neither the netns nor its path: the kernel removes the netdevice wherever it
// is, and makes a new one on the host (I8). Changed attributes of the netdevice are mended in
// this way.
//
// The VF leaves its owner first and loses the owner's VLAN after that, so that
// a pod that still runs never sends a frame outside its VLAN.
//
// One round may leave a difference that appears only after a bind (an MTU, a name). The caller
// reads the VF back and calls resetSteps again.
func resetSteps(p place, b vf.Baseline, st vf.State, rebind bool) []step.Step {
	lost := b.Name != "" && st.Link == nil
	tuned := st.Link != nil && len(b.Attributes.Diff(st.Link.Attributes)) > 0
	if rebind || lost || tuned || !b.IsComplete(st) || st.Driver != b.Driver || st.Admin.MAC != b.Admin.MAC {
		return rebindSteps(p, b, st)
	}
	var out []step.Step
	if st.Link != nil {
		out = homeSteps(p, b, *st.Link)
	}
	return append(out, adminSteps(p, st.Admin, b.Admin)...)
}

func rebindSteps(p place, b vf.Baseline, st vf.State) []step.Step {
	var out []step.Step
	if st.Driver != "" {
		out = append(out, step.Unbind{VF: p.pci})
	}
	out = append(out, adminSteps(p, st.Admin, b.Admin)...)
	if st.Admin.MAC != b.Admin.MAC && !b.Admin.MAC.IsZero() {
		out = append(out, step.SetVFMAC{PF: p.pf, Index: p.index, MAC: b.Admin.MAC})
	}
	if b.Driver != "" {
		driver := vf.DriverDefault
		if b.Driver == vf.DriverVFIO {
			driver = vf.DriverVFIO
		}
		out = append(out, step.Bind{VF: p.pci, Driver: driver})
	}
	return out
}

// homeSteps returns the steps that bring a netdevice back to the host's netns under its own name.
// A move to another netns drops addresses and routes.
func homeSteps(p place, b vf.Baseline, l vf.Link) []step.Step {
	var out []step.Step
	ns := l.Netns
	if l.Promisc || l.AllMulti {
		out = append(out, step.ClearPromisc{VF: p.pci, Netns: ns})
	}
	if l.Up && (!b.Up || ns != "" || l.Name != b.Name) {
		out = append(out, step.SetUp{VF: p.pci, Netns: ns})
	}
	if l.MTU != b.MTU {
		out = append(out, step.SetMTU{VF: p.pci, Netns: ns, MTU: b.MTU})
	}
	if l.MAC != b.LinkMAC {
		out = append(out, step.SetLinkMAC{VF: p.pci, Netns: ns, MAC: b.LinkMAC})
	}
	switch {
	case ns != "":
		out = append(out, step.Move{VF: p.pci, From: ns, Name: b.Name})
	default:
		for _, a := range l.Addrs {
			out = append(out, step.DelAddress{VF: p.pci, Address: a})
		}
		if l.Name != b.Name {
			out = append(out, step.Rename{VF: p.pci, Name: b.Name})
		}
	}
	if b.Up && (ns != "" || !l.Up || l.Name != b.Name) {
		out = append(out, step.SetUp{VF: p.pci, Up: true})
	}
	return out
}
