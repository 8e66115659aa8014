package alloc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// Room describes how full the pool of a VF is, in the words of an error of Choose. It returns ""
// if the VF is in no pool. given is as Want.Given.
func (h Host) Room(a vf.PCIAddr, given func(vf.PCIAddr) string) string {
	all := h.listCandidates()
	i := slices.IndexFunc(all, func(c candidate) bool { return c.rec.PCI == a })
	if i < 0 || all[i].pool.Name == "" {
		return ""
	}
	pool := all[i].pool.FullName()
	members := slices.DeleteFunc(all, func(c candidate) bool { return c.pool.FullName() != pool })
	return fmt.Sprintf("pool %s: %s", pool, h.describeFullness(members, Want{Given: given}))
}

func (h Host) nothingFree(pool string, members []candidate, w Want) error {
	unread := ""
	for _, pf := range h.unreadPFs() {
		unread += fmt.Sprintf(", PF %s could not be read (%s)", pf.Label(), pf.Err)
	}
	if len(members) == 0 {
		return fmt.Errorf("pool %s: no VF of this host is in it%s: %w for %s: see culvert pool list", pool, unread, vf.ErrNothingFree, w.For)
	}
	return fmt.Errorf("pool %s: %s%s: %w for %s", pool, h.describeFullness(members, w), unread, vf.ErrNothingFree, w.For)
}

// unreadPFs returns the PFs that could not be read and may have VFs of a pool. These are the PFs
// that host.yaml or the ledger names, and the PFs without an identity if host.yaml names a PF that
// is not found.
func (h Host) unreadPFs() (out []vf.PF) {
	lost := len(h.Spec.Unmatched(h.PFs)) > 0
	for _, pf := range h.PFs {
		_, managed := h.Spec.ForPF(pf)
		known := slices.ContainsFunc(h.Records, func(r journal.Record) bool { return r.ID.PF == pf.ID })
		if pf.Err != "" && (managed || known || lost && pf.ID.IsZero()) {
			out = append(out, pf)
		}
	}
	return out
}

// fullness has the owners of a pool's VFs, and the reasons why a request cannot have the free ones.
type fullness struct {
	total                         int
	pfs, held, given, beside, off []string
	no, advice                    string // of the first VF that the bond cannot have
	noMember                      int
	quarantined, damaged, waiting int
	making                        int // still without a baseline, so without an owner
	own                           int // of the bond that the request is about
}

// describeFullness describes who has the VFs of a pool.
func (h Host) describeFullness(members []candidate, w Want) string {
	f := fullness{total: len(members)}
	for _, c := range members {
		if !slices.Contains(f.pfs, c.pf.Label()) {
			f.pfs = append(f.pfs, c.pf.Label())
		}
		switch c.rec.Phase {
		case vf.PhaseQuarantined:
			f.quarantined++
		case vf.PhaseDamaged:
			f.damaged++
		case vf.PhaseMaking:
			f.making++
		case vf.PhaseFree:
			h.addFree(&f, c, w)
		default:
			if slices.Contains(w.Members, c.rec.ID) {
				f.own++
				continue
			}
			f.held = append(f.held, c.rec.Holder())
		}
	}
	return f.describe(w)
}

// addFree adds a free VF with the reason why the request cannot have it.
func (h Host) addFree(f *fullness, c candidate, w Want) {
	switch pod := w.givenTo(c.rec.PCI); {
	case pod != "" && w.isOthers(c):
		f.given = append(f.given, "pod "+pod)
	case c.waitsForSwitch(w.For):
		f.waiting++
	case w.isBeside(c):
		f.beside = append(f.beside, c.pf.Label())
	default:
		if off := h.whyOffSegment(c, w); off != "" {
			f.off = append(f.off, off)
		} else if no := h.whyNoMember(c, w); no != "" {
			if f.noMember++; f.noMember == 1 {
				f.no, f.advice = no, h.adviseBond(c, w)
			}
		}
	}
}

func (f fullness) describe(w Want) string {
	slices.Sort(f.held)
	what := fmt.Sprintf("%d of %d VFs on %s are held", len(f.held), f.total, strings.Join(f.pfs, ", "))
	if len(f.held) > 0 {
		what += " (" + strings.Join(f.held, "; ") + ")"
	}
	if f.own > 0 {
		what += fmt.Sprintf(", %d chosen for this bond of %d", f.own, w.Bond.Links)
	}
	if len(f.given) > 0 {
		slices.Sort(f.given)
		what += fmt.Sprintf(", %d given by the kubelet (%s)", len(f.given), strings.Join(f.given, "; "))
	}
	if f.waiting > 0 {
		what += fmt.Sprintf(", %d being switched to interfaces", f.waiting)
	}
	if f.making > 0 {
		what += fmt.Sprintf(", %d being made", f.making)
	}
	if f.quarantined > 0 {
		what += fmt.Sprintf(", %d quarantined (culvert vf list says why)", f.quarantined)
	}
	if f.damaged > 0 {
		what += fmt.Sprintf(", %d with a damaged record (culvert ledger check says more)", f.damaged)
	}
	if len(f.beside) > 0 {
		what += fmt.Sprintf(", and the free ones are on %s, where it has the other one of the pair (a pair needs VFs of two PFs)", f.beside[0])
	}
	if len(f.off) > 0 {
		what += fmt.Sprintf(", %d free, of which each %s", len(f.off), f.off[0])
	}
	if f.noMember > 0 {
		what += fmt.Sprintf(", %d free, of which each %s: %s", f.noMember, f.no, f.advice)
	}
	return what
}
