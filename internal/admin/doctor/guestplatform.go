package doctor

import (
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/guest"
	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/internal/vf"
)

// checkSlots compares the PCI devices that the definition passes with the slots of the guest's machine.
func (g *guestExam) checkSlots() {
	s, has := g.Slots, g.HostDevices()
	if s.Machine == "" || has == 0 {
		return
	}
	machine := fmt.Sprintf("machine %s has room for %d PCI devices of the host", s.Machine, s.Most)
	switch {
	case has > s.Most:
		g.exam.addFinding(finding{check: "slots", severity: api.SeverityError, object: g.object, why: "libvirt refuses a definition with more devices than its PCI buses have slots",
			mend: []string{"virsh edit " + g.Name + "    # take devices out, or spread them over several guests"}}, "it passes %d, and %s", has, machine)
	case has > s.Easily:
		g.exam.addFinding(finding{check: "slots", severity: api.SeverityWarning, object: g.object, why: "libvirt puts the others behind pci-bridges, which take I/O ports; QEMU advises against more than 9",
			mend: []string{"virsh edit " + g.Name + "    # make it a machine q35 (with a disk and drivers that know it), where each device has a root port"}},
			"it passes %d, and pci.0 of machine %s has %d slots left", has, s.Machine, s.Easily)
	case !s.Express:
		g.exam.addFinding(finding{check: "slots", severity: api.SeverityNote, object: g.object, why: "QEMU takes the fast path of a failover pair only on PCI Express, so such a guest cannot migrate live",
			mend: []string{"virsh edit " + g.Name + "    # machine='q35', with a disk and drivers that know it"}}, "it passes %d, and %s, none of PCI Express", has, machine)
	default:
		g.exam.addOK("slots", g.object, "it passes %d, and %s; %s free for plugging", has, machine, screen.Plural(s.Free, "root port"))
	}
}

// checkPFs reports devices that are PFs of this host as a whole.
func (g *guestExam) checkPFs() {
	for _, pf := range g.exam.PFs {
		if !slices.ContainsFunc(g.Uses, func(u guest.Use) bool { return u.VF() == pf.PCI && !pf.PCI.IsZero() }) {
			continue
		}
		if n := max(pf.NumVFs, len(pf.VFs)); n > 0 {
			g.exam.addFinding(finding{check: "guest", severity: api.SeverityError, object: g.object, why: "the VFs go when the guest takes the PF, although they may have owners; culvertd refuses to start it",
				mend: []string{"virsh edit " + g.Name + "    # take the PF out, and give the guest a VF: culvert vm attach " + g.Name}},
				"it passes %s (%s) as a whole, which has %s", pfName(pf), pf.PCI, vf.CountText(n))
			continue
		}
		g.exam.addNote("guest", g.object, "it passes %s (%s) as a whole: Culvert makes no VFs of it while the guest runs", pfName(pf), pf.PCI)
	}
}

// checkWindows says what a Windows guest needs. Culvert's tests have no Windows.
func (g *guestExam) checkWindows() {
	if !g.Windows.Is {
		return
	}
	g.exam.addNote("windows", g.object, "it is a Windows guest: these checks are from public documents, and were not run with Windows")
	for _, v := range g.listVFs() {
		failover := slices.ContainsFunc(g.Uses, func(u guest.Use) bool { return u.VF() == v.PCI && u.Failover != "" })
		for _, a := range g.Windows.AdviseVF(v.pf.Driver, v.State, failover) {
			g.exam.addFinding(finding{check: "windows", severity: api.SeverityNote, object: g.object, why: a.Why, mend: a.Mend}, "%s", a.What)
		}
	}
	for _, a := range g.Windows.Advise() {
		g.exam.addFinding(finding{check: "windows", severity: api.SeverityWarning, object: g.object, why: a.Why, mend: g.editCommand(a.Mend...)}, "%s", a.What)
	}
}
