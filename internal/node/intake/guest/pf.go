package guest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/guest"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// findPFs returns the PFs of this host that the devices pass to a guest as a whole.
func (h *Handler) findPFs(uses []guest.Use) []vf.PF { return passedPFs(h.node.Engine.PFs(), uses) }

// passedPFs returns those of the PFs that the devices pass.
func passedPFs(pfs []vf.PF, uses []guest.Use) (out []vf.PF) {
	for _, pf := range pfs {
		if slices.ContainsFunc(uses, func(u guest.Use) bool { return u.VF() == pf.PCI }) {
			out = append(out, pf)
		}
	}
	return out
}

// refusePFs returns the reason why the guest cannot have one of the PFs, or "".
func (h *Handler) refusePFs(pfs []vf.PF, who vf.Owner) (why string, err error) {
	if len(pfs) == 0 {
		return "", nil
	}
	err = h.ledger.View(func(tx *journal.Tx) error {
		why = findPFObstacle(tx, pfs, who)
		return nil
	})
	return why, err
}

// findPFObstacle returns the reason why a guest cannot have one of the PFs: Culvert made VFs of it, or
// another guest has it. That other guest's end was missed if the host can read the PF again.
func findPFObstacle(tx *journal.Tx, pfs []vf.PF, who vf.Owner) string {
	records := tx.Records()
	for _, pf := range pfs {
		if isMade(records, pf) {
			return fmt.Sprintf("PF %s (%s), since the VFs that Culvert made of it would be gone", pf.Label(), pf.PCI)
		}
		if l, leased := tx.PFLeaseOf(pf.PCI); leased && l.Owner.UID != who.UID && pf.Err != "" {
			return fmt.Sprintf("PF %s, which guest %s has as a whole: %s", pf.PCI, l.Owner.Name, vf.ErrHeld)
		}
	}
	return ""
}

// isMade reports whether the ledger has VFs of a PF.
func isMade(records []journal.Record, pf vf.PF) bool {
	return slices.ContainsFunc(records, func(r journal.Record) bool { return r.ID.PF == pf.ID && !pf.ID.IsZero() })
}

// leasePFs makes the guest the owner of PFs, of which Culvert then makes no VFs. One transaction
// checks and writes, as reconcile does before it makes VFs: only one of the two gets the PF.
func (h *Handler) leasePFs(who vf.Owner, pfs []vf.PF) (why string, err error) {
	if len(pfs) == 0 {
		return "", nil
	}
	err = h.ledger.Update(func(tx *journal.Tx) error {
		if why = findPFObstacle(tx, pfs, who); why != "" {
			return nil
		}
		return leasePFs(tx, who, pfs)
	})
	return why, err
}

// leasePFs writes the leases of PFs that the guest does not have yet, each with an event.
func leasePFs(tx *journal.Tx, who vf.Owner, pfs []vf.PF) error {
	var errs []error
	for _, pf := range pfs {
		old, leased := tx.PFLeaseOf(pf.PCI)
		if leased && old.Owner.UID == who.UID {
			continue // it knows the PF's name, which the host may not see now
		}
		l := journal.NewPFLease(pf, who)
		if leased {
			l.ID, l.Name, l.Driver = old.ID, old.Name, old.Driver
		}
		errs = append(errs, tx.LeasePF(l), tx.Event(journal.Event{Type: journal.Normal, Reason: reasons.PFTaken, Object: "PF " + pf.Label(), PF: l.ID, Owner: who,
			Text: fmt.Sprintf("guest %s has it as a whole, so Culvert makes no VFs of it", who.Name)}))
	}
	return errors.Join(errs...)
}

// endPFLeases ends the guest's leases of PFs that match.
func (h *Handler) endPFLeases(uuid string, match func(vf.PCIAddr) bool) error {
	var ended []journal.PFLease
	err := h.ledger.View(func(tx *journal.Tx) error {
		for _, l := range tx.PFLeases() {
			if l.Owner.UID == uuid && match(l.PCI) {
				ended = append(ended, l)
			}
		}
		return nil
	})
	if err != nil || len(ended) == 0 {
		return err
	}
	return h.ledger.Update(func(tx *journal.Tx) error { return endPFLeases(tx, ended) })
}

// endPFLeases ends leases that are still as they were read, each with an event.
func endPFLeases(tx *journal.Tx, leases []journal.PFLease) error {
	var errs []error
	for _, l := range leases {
		if now, leased := tx.PFLeaseOf(l.PCI); !leased || now != l {
			continue
		}
		errs = append(errs, tx.EndPFLease(l.PCI), tx.Event(journal.Event{Type: journal.Normal, Reason: reasons.PFReturned,
			Object: "PF " + vf.PF{PCI: l.PCI, Name: l.Name}.Label(), PF: l.ID, Owner: l.Owner, Text: fmt.Sprintf("guest %s does not have it any more", l.Owner.Name)}))
	}
	return errors.Join(errs...)
}

// grantWithPFs gives the guest its PFs and VFs, or none of them.
func (h *Handler) grantWithPFs(ctx context.Context, who vf.Owner, pfs []vf.PF, requests []attach.Request) (api.GuestAnswer, error) {
	why, err := h.leasePFs(who, pfs)
	if err != nil {
		return api.GuestAnswer{}, err
	}
	if why != "" {
		return refuse(fmt.Sprintf("guest %s cannot have %s: take it out of the definition", who.Name, why)), nil
	}
	answer, err := h.grantAll(ctx, requests)
	if answer.Refused != "" || err != nil {
		err = errors.Join(err, h.endPFLeases(who.UID, func(pci vf.PCIAddr) bool {
			return slices.ContainsFunc(pfs, func(pf vf.PF) bool { return pf.PCI == pci })
		}))
	}
	return answer, err
}

// grantPortPF gives a guest the PF that libvirt took for it from a network, if it is one of this
// host's.
func (h *Handler) grantPortPF(port guest.Port) (api.GuestAnswer, error) {
	pfs := h.findPFs([]guest.Use{{Way: guest.Hostdev, PCI: port.Want.VF}})
	why, err := h.leasePFs(vf.Owner{Kind: vf.OwnerGuest, UID: port.UUID, Name: port.Name}, pfs)
	if err != nil || why == "" {
		return api.GuestAnswer{}, err
	}
	return refuse(fmt.Sprintf("guest %s cannot have %s: take it out of the network", port.Name, why)), nil
}

// settlePFs brings the leases of PFs in line with the guests that run. A guest that has just started
// may not be among them yet.
func (c *Comparer) settlePFs(guests []Seen, leases []journal.PFLease) error {
	runsWith := func(g Seen, pci vf.PCIAddr) bool { return g.Running && (g.Unread || namesVF(g.Live, pci)) }
	var ended []journal.PFLease
	for _, l := range leases {
		runs := slices.ContainsFunc(guests, func(g Seen) bool { return g.UUID == l.Owner.UID && runsWith(g, l.PCI) })
		if !runs && c.now().Sub(l.Since) >= undefined {
			ended = append(ended, l)
		}
	}
	taken := map[string][]vf.PF{} // by guest
	pfs := c.node.Engine.PFs()
	for _, g := range guests {
		if !g.Running || g.Unread {
			continue
		}
		for _, pf := range passedPFs(pfs, g.Live.Uses) {
			if !slices.ContainsFunc(leases, func(l journal.PFLease) bool { return l.PCI == pf.PCI && l.Owner.UID == g.UUID }) {
				taken[g.UUID] = append(taken[g.UUID], pf)
			}
		}
	}
	if len(ended) == 0 && len(taken) == 0 {
		return nil
	}
	return c.ledger.Update(func(tx *journal.Tx) error {
		errs := []error{endPFLeases(tx, ended)}
		for _, g := range guests {
			errs = append(errs, leasePFs(tx, vf.Owner{Kind: vf.OwnerGuest, UID: g.UUID, Name: g.Name}, taken[g.UUID]))
		}
		return errors.Join(errs...)
	})
}

// readPFLeases returns the leases of PFs, and whether a guest may have a PF: one is leased, or the host
// has given one to vfio-pci.
func (c *Comparer) readPFLeases() (leases []journal.PFLease, may bool, err error) {
	err = c.ledger.View(func(tx *journal.Tx) error {
		leases = tx.PFLeases()
		return nil
	})
	bound := slices.ContainsFunc(c.node.Engine.PFs(), func(pf vf.PF) bool { return pf.Driver == vf.DriverVFIO })
	return leases, len(leases) > 0 || bound, err
}

// findPassedPFs returns the guests whose next definition passes a PF of which Culvert made VFs: they
// cannot start.
func (c *Comparer) findPassedPFs(guests []Seen, records []journal.Record) (out []api.Problem) {
	pfs := c.node.Engine.PFs()
	for _, g := range guests {
		for _, pf := range passedPFs(pfs, g.Next.Uses) {
			if isMade(records, pf) {
				out = append(out, api.Problem{Object: "guest " + g.Name,
					Reason: fmt.Sprintf("its definition passes PF %s (%s) as a whole, and Culvert has VFs of it: it cannot start", pf.Label(), pf.PCI),
					Next:   fmt.Sprintf("take the PF out of the definition (virsh edit %s), or set vfs: 0 for it in host.yaml once its VFs are free", g.Name)})
			}
		}
	}
	return out
}
