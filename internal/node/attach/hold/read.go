package hold

import (
	"context"
	"errors"
	"fmt"

	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// ErrGone says that a VF is not on the bus any more: it or its PF was removed, or another
// program wrote sriov_numvfs. Its netdevice went with it, wherever that was, so neither it nor
// its addresses have an owner.
var ErrGone = errors.New("gone from the bus")

// ReadVF reads a VF of the ledger. The error is ErrGone when the VF does not exist any more, or
// when its address belongs to another VF now. Any other error leaves open whether the VF exists.
func (h *VFs) ReadVF(ctx context.Context, rec journal.Record) (vf.State, error) {
	st, err := h.Kernel.VF(ctx, rec.PCI, rec.Lease.Netns)
	switch {
	case errors.Is(err, vf.ErrNotFound):
		return st, fmt.Errorf("%w: %w", ErrGone, err)
	case err != nil:
		return st, err
	case st.ID != rec.ID:
		return st, fmt.Errorf("%w: %s is VF %s now", ErrGone, rec.PCI, st.ID)
	}
	st.Can = h.AbilitiesOf(st.ID.PF)
	return st, nil
}

// AbilitiesOf returns what the driver of a listed PF can set, as far as that is known.
func (h *VFs) AbilitiesOf(id vf.PFID) vf.Abilities {
	for _, pf := range h.Hardware.PFs() {
		if pf.ID == id {
			return pf.Abilities
		}
	}
	return nil
}

// ReadFromHost reads a VF without looking into the netns of its owner, which can keep culvertd from
// reading it there. The interface is nil unless it is on the host.
func (h *VFs) ReadFromHost(ctx context.Context, rec journal.Record) (vf.State, error) {
	return h.ReadVF(ctx, journal.Record{ID: rec.ID, PCI: rec.PCI})
}

// ForgetVF ends the lease on a VF that is gone, and with it the record: if the VF comes back,
// reconcile takes it over as a new one.
func (h *VFs) ForgetVF(rec journal.Record, cause error) error {
	h.Log.Warn("VF is gone", "vf", rec.ID, "phase", rec.Phase, "owner", rec.Lease.Owner, "err", cause)
	err := h.Ledger.Update(func(tx *journal.Tx) error { return tx.Forget(rec.ID, cause.Error()) })
	if err == nil {
		h.ForgetLease(rec.ID)
	}
	return err
}

// ReadGuarded is ReadVF with the guard of a VF whose lease has one and whose interface is with its
// owner. A release uses ReadVF, since a guard that cannot be read must not keep the VF from its
// reset.
func (h *VFs) ReadGuarded(ctx context.Context, rec journal.Record) (vf.State, error) {
	st, err := h.ReadVF(ctx, rec)
	if err != nil || rec.Lease.Wanted.Guard == "" || st.Link == nil || st.Link.Netns == "" {
		return st, err
	}
	g, err := h.Kernel.Guard(ctx, rec.PCI, st.Link.Netns)
	if err == nil {
		link := *st.Link
		link.Guard = &g
		st.Link = &link
	}
	return st, err
}

// FindSite returns the present place of a recorded VF. The error is vf.ErrNotFound if its PF is
// not on this host (any more).
func (h *VFs) FindSite(rec journal.Record) (lease.Site, error) {
	for _, pf := range h.Hardware.PFs() {
		if pf.ID == rec.ID.PF {
			return lease.SiteOf(pf, rec), nil
		}
	}
	return lease.Site{Label: rec.ID.PF.String()}, fmt.Errorf("PF %s: %w on this host", rec.ID.PF, vf.ErrNotFound)
}

func (h *VFs) readRecord(id vf.ID) (rec journal.Record, err error) {
	err = h.Ledger.View(func(tx *journal.Tx) error {
		rec, err = tx.Record(id)
		return err
	})
	return rec, err
}

// FindHeld finds the VF that an attachment has. A VF that is being released counts only when
// there is no other: the attachment may have had it once, and culvertd brings it out of
// quarantine only now.
func (h *VFs) FindHeld(owner vf.Owner) (rec journal.Record, ok bool, err error) {
	records, err := h.ReadRecords()
	for _, r := range records {
		if !r.Held() || !lease.SameAttachment(r.Lease.Owner, owner) {
			continue
		}
		if !ok || rec.Phase == vf.PhaseReleasing {
			rec, ok = r, true
		}
	}
	return rec, ok, err
}

// FindListed finds a VF and its PF in a listing.
func FindListed(r journal.Record, seen []vf.PF) (vf.PF, vf.State, bool) {
	for _, pf := range seen {
		if pf.ID == r.ID.PF {
			st, ok := pf.VF(r.ID.Index)
			return pf, st, ok
		}
	}
	return vf.PF{}, vf.State{}, false
}

// WithIdle runs f while no request can get the VF, and reports whether f ran. f does not run if
// the VF is held, other work has it locked, or it is used outside the ledger, nor if culvertd
// cannot find that out.
func (h *VFs) WithIdle(ctx context.Context, id vf.ID, f func(journal.Record) error) (ran bool, err error) {
	unlock, busy := h.Locks.TryLock(id, "culvertd's work on a VF that is free")
	if busy != nil {
		return false, nil
	}
	defer unlock()
	rec, err := h.readRecord(id)
	if errors.Is(err, vf.ErrNotFound) || err == nil && rec.Phase != vf.PhaseFree {
		return false, nil // the VF was forgotten, or is in another phase by now
	}
	if err != nil {
		return false, err
	}
	if h.IsLeftToUser(ctx, rec) {
		return false, nil
	}
	return true, f(rec)
}

// CurrentRecord returns the record of a VF as it is now; same is false when the VF was
// forgotten since it was seen, or is in another lease.
func (h *VFs) CurrentRecord(seen journal.Record) (now journal.Record, same bool, err error) {
	now, err = h.readRecord(seen.ID)
	if errors.Is(err, vf.ErrNotFound) {
		return now, false, nil
	}
	return now, err == nil && now.Generation == seen.Generation, err
}

// ReadRecords returns the records of all VFs in the ledger.
func (h *VFs) ReadRecords() ([]journal.Record, error) { return journal.ReadRecords(h.Ledger) }
