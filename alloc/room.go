package alloc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// Room says how full the pool of a VF is, in the words of an error of Choose; empty
// for a VF of no pool. given is as Want's.
func (h Host) Room(a vf.PCIAddr, given func(vf.PCIAddr) string) string {
	all := h.candidates()
	i := slices.IndexFunc(all, func(c candidate) bool { return c.rec.PCI == a })
	if i < 0 || all[i].pool.Name == "" {
		return ""
	}
	pool := all[i].pool.FullName()
	members := slices.DeleteFunc(all, func(c candidate) bool { return c.pool.FullName() != pool })
	return fmt.Sprintf("pool %s: %s", pool, fullness(members, Want{Given: given}))
}

func (h Host) nothingFree(pool string, members []candidate, w Want) error {
	unread := ""
	for _, pf := range h.unread() {
		unread += fmt.Sprintf(", PF %s could not be read (%s)", pf.Label(), pf.Err)
	}
	if len(members) == 0 {
		return fmt.Errorf("pool %s: no VF of this host is in it%s: %w for %s: see culvert pool list", pool, unread, vf.ErrNothingFree, w.For)
	}
	return fmt.Errorf("pool %s: %s%s: %w for %s", pool, fullness(members, w), unread, vf.ErrNothingFree, w.For)
}

// unread are the PFs that could not be read and may have VFs of a pool: those that
// host.yaml or the ledger speaks of, and, where host.yaml speaks of one that is not to
// be found, those of which nothing is known.
func (h Host) unread() (out []vf.PF) {
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

// fullness says who has the VFs of a pool.
func fullness(members []candidate, w Want) string {
	var (
		pfs, held, given, beside      []string
		quarantined, damaged, waiting int
	)
	for _, c := range members {
		if !slices.Contains(pfs, c.pf.Label()) {
			pfs = append(pfs, c.pf.Label())
		}
		switch c.rec.Phase {
		case journal.Quarantined:
			quarantined++
		case journal.Damaged:
			damaged++
		case journal.Free:
			switch pod := w.givenTo(c.rec.PCI); {
			case pod != "":
				given = append(given, "pod "+pod)
			case c.waits(w.For):
				waiting++
			case w.beside(c):
				beside = append(beside, c.pf.Label())
			}
		default:
			held = append(held, c.rec.Lease.Owner.String())
		}
	}
	slices.Sort(held)
	what := fmt.Sprintf("%d of %d VFs on %s are held", len(held), len(members), strings.Join(pfs, ", "))
	if len(held) > 0 {
		what += " (" + strings.Join(held, "; ") + ")"
	}
	if len(given) > 0 {
		slices.Sort(given)
		what += fmt.Sprintf(", %d given by the kubelet (%s)", len(given), strings.Join(given, "; "))
	}
	if waiting > 0 {
		what += fmt.Sprintf(", %d being switched to interfaces", waiting)
	}
	if quarantined > 0 {
		what += fmt.Sprintf(", %d quarantined (culvert vf list says why)", quarantined)
	}
	if damaged > 0 {
		what += fmt.Sprintf(", %d with a damaged record (culvert ledger check says more)", damaged)
	}
	if len(beside) > 0 {
		what += fmt.Sprintf(", and the free ones are on %s, where it has the other one of the pair (a pair needs VFs of two PFs)", beside[0])
	}
	return what
}
