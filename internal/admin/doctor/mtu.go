package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/internal/vf"
)

// attached is the phase of a VF that its owner has (package journal).
const attached = "attached"

// checkMTU compares the MTU of each PF with host.yaml and with its VFs, on the host and in their
// owners' network namespaces (P19).
func checkMTU(e *examination) {
	for _, pf := range e.PFs {
		if pf.Name == "" {
			continue
		}
		before := len(e.found)
		want, _ := e.Spec.ForPF(pf)
		if reason, _, ok := want.OtherMTU(pf); ok {
			e.addFinding(finding{check: "mtu", severity: api.SeverityWarning, object: pfName(pf), why: "a bond gives its MTU to its members, so culvertd leaves it alone",
				mend: raiseMTU(pf, want.MTU)}, "%s", reason)
		} else if want.ChangesMTU(pf) {
			e.addFinding(finding{check: "mtu", severity: api.SeverityWarning, object: pfName(pf), why: "larger frames are dropped without a word",
				mend: []string{"culvert host apply    # culvertd sets it"}}, "its MTU is %d, and %s wants %d", pf.MTU, want.From, want.MTU)
		}
		e.vfMTUs(pf)
		if len(e.found) == before {
			e.addOK("mtu", pfName(pf), "MTU %d%s", pf.MTU, e.mtuOf(pf))
		}
	}
	if e.Status == nil && len(e.PFs) > 0 {
		e.addNote("mtu", host, "what networks and owners ask for is not known, since culvertd does not answer")
	}
}

// mtuOf names the values with which the PF's MTU agrees.
func (e *examination) mtuOf(pf vf.PF) string {
	held := 0
	for _, v := range e.vfsOf(pf) {
		if v.Owner != nil {
			held++
		}
	}
	switch want, _ := e.Spec.ForPF(pf); {
	case want.MTU != 0 && held > 0:
		return fmt.Sprintf(", as %s wants it and as its %s in use need it", want.From, screen.Plural(held, "VF"))
	case want.MTU != 0:
		return fmt.Sprintf(", as %s wants it", want.From)
	case held > 0:
		return fmt.Sprintf(", as its %s in use need it", screen.Plural(held, "VF"))
	}
	return ""
}

func (e *examination) vfsOf(pf vf.PF) []api.VF {
	var out []api.VF
	if e.Status == nil {
		return nil
	}
	for _, v := range e.Status.VFs {
		if v.PF == pf.Label() && !v.Missing && !v.Unread {
			out = append(out, v)
		}
	}
	return out
}

// raiseMTU returns the step that gives a PF another MTU.
func raiseMTU(pf vf.PF, mtu int) []string {
	if pf.Master.SetsMTU() {
		return []string{fmt.Sprintf("%s    # and the same where %s is configured", pf.Master.MTUCommand(mtu), pf.Master.Name)}
	}
	return []string{fmt.Sprintf("mtu: %d for %s in /etc/culvert/host.yaml, then: culvert host apply", mtu, pf.Label())}
}

// tooLarge reports a VF whose MTU is larger than its PF's.
func (e *examination) tooLarge(pf vf.PF, name, who string, mtu int) {
	e.addFinding(finding{check: "mtu", severity: api.SeverityError, object: "VF " + name, why: "the NIC drops what is larger than the PF takes",
		mend: raiseMTU(pf, mtu)}, "its MTU is %d (%s), its PF's is %d", mtu, who, pf.MTU)
}

// vfMTUs finds VFs whose MTU is larger than their PF's, and owners that use different MTUs.
func (e *examination) vfMTUs(pf vf.PF) {
	held := map[int][]string{}
	if e.Status == nil {
		for _, v := range pf.VFs {
			if v.Link != nil && v.Link.MTU > pf.MTU {
				e.tooLarge(pf, fmt.Sprintf("%s#%d", pf.Label(), v.ID.Index), "on the host, as "+v.Link.Name, v.Link.MTU)
			}
		}
	}
	for _, v := range e.vfsOf(pf) {
		mtu := 0
		if v.Link != nil {
			mtu = v.Link.MTU
		}
		if v.Wanted != nil && v.Wanted.MTU != nil {
			mtu = *v.Wanted.MTU
		}
		if v.Owner != nil && mtu > 0 && v.Phase == attached {
			held[mtu] = append(held[mtu], v.Owner.String())
		}
		if mtu <= pf.MTU {
			continue
		}
		who := "free"
		if v.Owner != nil {
			who = v.Owner.String() + ", network " + v.Network
		}
		e.tooLarge(pf, v.Name, who, mtu)
	}
	if len(held) > 1 {
		var sizes []int
		for mtu := range held {
			sizes = append(sizes, mtu)
		}
		slices.Sort(sizes)
		var parts []string
		for _, mtu := range sizes {
			parts = append(parts, fmt.Sprintf("%d: %s", mtu, strings.Join(held[mtu], ", ")))
		}
		e.addFinding(finding{check: "mtu", severity: api.SeverityNote, object: pfName(pf), why: "those of one network need one MTU; UDP between them is lost otherwise",
			mend: []string{"compare mtu in their networks"}}, "its VFs have different MTUs (%s)", strings.Join(parts, "; "))
	}
}

// checkPeer judges the sizes of packets that reached another host.
func checkPeer(e *examination) {
	p := e.Peer
	switch {
	case p == nil && len(e.PFs) > 0:
		e.addFinding(finding{check: "path", severity: api.SeverityNote, object: host, mend: []string{"culvert doctor --peer ADDRESS"}},
			"whether the switches pass the MTU was not tried: that takes a peer")
	case p == nil:
	case p.Err != "":
		e.addFinding(finding{check: "path", severity: api.SeverityError, object: "peer " + p.Address, why: "its MTU could not be tried"}, "%s", p.Err)
	case p.Fits == 0:
		e.addFinding(finding{check: "path", severity: api.SeverityError, object: "peer " + p.Address, why: "without an answer to small packets nothing is known of large ones",
			mend: []string{"ping -I " + p.Device + " " + p.Address}}, "it does not answer ping through %s, not even to %d bytes", p.Device, p.Least)
	case p.Fits < p.Want:
		f := finding{check: "path", severity: api.SeverityError, object: "peer " + p.Address, why: "large packets vanish on the way: connections open, and then hang",
			mend: []string{fmt.Sprintf("MTU of the switch ports on the way and of the peer: at least %d", p.Want), fmt.Sprintf("or mtu: %d in host.yaml and in the networks", usualMTU(p.Fits))}}
		if p.Want > p.MTU {
			f.why = "the netdevice itself is smaller"
			f.mend = []string{fmt.Sprintf("mtu: %d for %s in /etc/culvert/host.yaml, then: culvert host apply", p.Want, p.Device)}
		}
		e.addFinding(f, "packets of %d bytes get through %s, not of %d", p.Fits, p.Device, p.Want)
	default:
		e.addOK("path", "peer "+p.Address, "packets of %d bytes get through %s and back, unbroken", p.Fits, p.Device)
	}
}

// usualMTU returns the MTU to set on a path that carries packets of up to the given size. NICs
// and switches accept a few bytes more than their MTU, for VLAN tags.
func usualMTU(fits int) int {
	for _, mtu := range []int{9000, 1500} {
		if fits >= mtu && fits < mtu+100 {
			return mtu
		}
	}
	return fits
}
