package attach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/node/alloc"
	"github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// Claims gives VFs to ResourceClaims and takes them back. Its methods may be called concurrently.
type Claims struct {
	engine *Engine
	vfs    *hold.VFs
}

// NewClaims returns the Claims of a host.
func NewClaims(e *Engine) *Claims { return &Claims{engine: e, vfs: e.vfs} }

// Wish is a VF that a ResourceClaim was allocated. VFs and Since of the claim are filled in by Prepare,
// and so is Pool.
type Wish struct {
	VF    vf.ID
	Claim journal.Claim
}

// Claimed returns the records of the VFs that a claim has, in any phase. It needs nothing but the
// ledger.
func (c *Claims) Claimed(uid string) (out []journal.Record, err error) {
	records, err := c.vfs.ReadRecords()
	for _, r := range records {
		if r.Claim != nil && r.Claim.UID == uid {
			out = append(out, r)
		}
	}
	return out, err
}

// Prepare keeps the VFs of a claim for the pods of that claim, all of them or none, and changes nothing
// in the kernel. When it returns nil, each of the VFs was read and is clean, and the ledger says so. VFs
// that the claim has already stay as they are. A VF that is dirty goes to quarantine, and the claim is
// refused.
//
// Errors: vf.ErrHeld (another owner or claim has a VF, or it is used outside Culvert), vf.ErrNotFound
// (no such VF), vf.ErrInvalid (a VF is in no pool, its pool is not offered to claims or does not admit
// the claim's namespace), vf.ErrNotReady (it cannot be read now, is being made, or is in quarantine).
func (c *Claims) Prepare(ctx context.Context, wishes []Wish) ([]journal.Record, error) {
	wishes = slices.SortedFunc(slices.Values(wishes), func(a, b Wish) int { return a.VF.Compare(b.VF) })
	for i := range wishes {
		wishes[i].Claim.VFs = len(wishes)
	}
	unlock, err := c.lockVFs(ctx, wishes)
	defer unlock()
	if err != nil {
		return nil, err
	}
	given, err := c.engine.askGiven(ctx, Request{Owner: ownerOf(wishes)})
	if err != nil {
		return nil, err
	}
	choices, err := c.judgeWishes(ctx, wishes, given)
	if err != nil {
		return nil, err
	}
	var out []journal.Record
	err = c.vfs.Ledger.Update(func(tx *journal.Tx) error {
		out = nil
		for i, w := range wishes {
			rec, err := writeClaim(tx, choices[i], w.Claim)
			if err != nil {
				return err
			}
			out = append(out, rec)
		}
		return nil
	})
	return out, err
}

// lockVFs locks the VFs of wishes, which are in the order of their IDs. The caller calls unlock also
// after an error.
func (c *Claims) lockVFs(ctx context.Context, wishes []Wish) (unlock func(), err error) {
	var locked []func()
	unlock = func() {
		for _, one := range locked {
			one()
		}
	}
	for _, w := range wishes {
		one, err := c.vfs.Locks.Lock(ctx, w.VF, "the preparation of "+w.Claim.String())
		if err != nil {
			return unlock, fmt.Errorf("VF %s: %w: nothing was changed, repeat it", w.VF, err)
		}
		locked = append(locked, one)
	}
	return unlock, nil
}

// ownerOf returns the claim of wishes as an owner, for messages.
func ownerOf(wishes []Wish) vf.Owner {
	if len(wishes) == 0 {
		return vf.Owner{Kind: vf.OwnerClaim}
	}
	return wishes[0].Claim.Owner()
}

// judgeWishes returns where the VFs of a claim are, or all reasons why the claim cannot have them. The
// VFs are locked.
func (c *Claims) judgeWishes(ctx context.Context, wishes []Wish, given func(vf.PCIAddr) string) ([]alloc.Choice, error) {
	records, err := c.vfs.ReadRecords()
	if err != nil {
		return nil, err
	}
	host := alloc.Host{PFs: c.vfs.Hardware.PFs(), Records: records, Spec: c.vfs.Spec()}
	of := ownerOf(wishes)
	of.Kind = vf.OwnerPod // of the same namespace
	tenant := c.engine.tenantOf(ctx, Request{Owner: of})
	var errs []error
	choices := make([]alloc.Choice, len(wishes))
	for i, w := range wishes {
		if choices[i], err = host.FindClaimable(w.VF, w.Claim, given); err == nil && choices[i].Record.Claim == nil {
			choices[i].Record.Readback, err = c.judgeWish(ctx, choices[i], tenant)
		}
		errs = append(errs, err)
	}
	return choices, errors.Join(errs...)
}

// judgeWish reads back a free VF that a claim of a tenant wants. The error says why the claim cannot have
// the VF. judgeWish quarantines a dirty VF.
func (c *Claims) judgeWish(ctx context.Context, choice alloc.Choice, tenant desired.Tenant) (*vf.Readback, error) {
	rec, at := choice.Record, lease.SiteOf(choice.PF, choice.Record)
	what := fmt.Sprintf("VF %s on %s", rec.PCI, at.Label)
	if choice.Pool == "" {
		if err := c.engine.missingPools(); err != nil {
			return nil, fmt.Errorf("%s is in no pool that is known on this node: %w", what, err)
		}
		return nil, fmt.Errorf("%s: %w: it is in no pool: add it to a pool of the NodePolicy or host.yaml", what, vf.ErrInvalid)
	}
	if choice.Rules.Offer != desired.OfferClaims {
		return nil, fmt.Errorf("%s: %w: its pool %s is offered as a resource now: set offer: %s, or let the pod ask for the resource", what, vf.ErrInvalid, choice.Pool, desired.OfferClaims)
	}
	if err := choice.Rules.CheckTenant(tenant); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	err := c.vfs.FindCall(at, rec)
	attributes := 0
	if err == nil {
		attributes, err = c.engine.checkClean(ctx, rec)
	}
	switch {
	case err == nil:
		read := rec.ReadAgain(c.vfs.Now(), attributes)
		return &read, nil
	case ctx.Err() != nil || isUntouchable(err):
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return nil, errors.Join(fmt.Errorf("%s: %w: culvertd resets it before it has an owner: try again: %w", what, vf.ErrNotReady, err), c.engine.quarantineDirty(at, rec, err))
}

// writeClaim writes that a claim has a VF, unless the claim has it already. The error is vf.ErrNotReady
// if the VF is not free any more.
func writeClaim(tx *journal.Tx, choice alloc.Choice, claim journal.Claim) (journal.Record, error) {
	rec, err := tx.Record(choice.Record.ID)
	switch {
	case err == nil && rec.Claim != nil && rec.Claim.UID == claim.UID:
		return rec, nil
	case err != nil || rec.Phase != vf.PhaseFree || rec.Generation != choice.Record.Generation:
		return rec, fmt.Errorf("VF %s on %s: %w: it has changed meanwhile: try again", choice.Record.PCI, choice.PF.Label(), vf.ErrNotReady)
	}
	claim.Pool, claim.Since = choice.Pool, tx.Now()
	rec.PCI, rec.Readback = choice.Record.PCI, choice.Record.Readback
	rec.Generation++ // another claim is another term
	rec.Phase, rec.Claim = vf.PhasePrepared, &claim
	pods := make([]string, len(claim.Pods))
	for i, p := range claim.Pods {
		pods[i] = claim.Namespace + "/" + p.Name
	}
	return rec, errors.Join(tx.Put(rec), tx.Event(rec.MakeEvent(journal.Normal, reasons.Prepared,
		fmt.Sprintf("vf %d of %s for %s, pods %s", rec.ID.Index, choice.PF.Label(), claim, strings.Join(pods, ", ")))))
}

// Unprepare ends what a claim has: leases of its VFs too, since their DEL may have been lost. It needs
// nothing but the ledger and the UID of the claim (I8), and returns nil for a claim that has no VF. A VF
// that cannot be reset goes to quarantine without the claim, which is no error: no owner gets it
// before its reset was read back (I3). cause is nil if the kubelet asked for it.
//
// The error says that a VF has its claim still: other work on it has not ended before ctx, or the
// ledger could not be written. One VF does not keep the others (I7).
func (c *Claims) Unprepare(ctx context.Context, uid string, cause error) error {
	records, err := c.Claimed(uid)
	errs := []error{err}
	for _, r := range records {
		if !r.Lease.Owner.IsZero() && r.Phase != vf.PhaseQuarantined {
			if err := c.engine.resets.End(ctx, r); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		errs = append(errs, c.endClaim(ctx, r, cause))
	}
	return errors.Join(errs...)
}

// endClaim takes the claim from a VF that has no lease, or is in quarantine.
func (c *Claims) endClaim(ctx context.Context, seen journal.Record, cause error) error {
	unlock, err := c.vfs.Locks.Lock(ctx, seen.ID, "the end of "+seen.Claim.String())
	if err != nil {
		return fmt.Errorf("take VF %s from %s: %w: repeat it", seen.PCI, seen.Claim, err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hold.UndoBound) // once begun, it is finished
	defer cancel()
	rec, found, err := c.readClaimed(seen)
	if err != nil || !found {
		return err
	}
	at, _ := c.vfs.FindSite(rec)
	claim := *rec.Claim
	text := fmt.Sprintf("vf %d of %s from %s", rec.ID.Index, at.Label, claim)
	kind := journal.Normal
	if cause != nil {
		kind, text = journal.Warning, text+": "+cause.Error()
	}
	rec.Claim = nil
	clean := rec.Phase == vf.PhasePrepared && c.isUntouched(ctx, rec)
	switch {
	case rec.Phase == vf.PhaseQuarantined: // stays there
	case rec.Phase != vf.PhasePrepared:
		return fmt.Errorf("take VF %s from %s: %w: it is %s for %s: repeat it", rec.PCI, claim, vf.ErrNotReady, rec.Phase, rec.Holder())
	case clean:
		rec.Phase = vf.PhaseFree
	default:
		rec.Phase = vf.PhaseReleasing
	}
	rec.Generation++
	err = c.vfs.Ledger.Update(func(tx *journal.Tx) error {
		event := rec.MakeEvent(kind, reasons.Unprepared, text)
		event.Owner, event.Claim = claim.Owner(), claim.Owner()
		return errors.Join(tx.Put(rec), tx.Event(event))
	})
	if err != nil || rec.Phase != vf.PhaseReleasing {
		return err
	}
	return c.engine.resets.ReleaseVF(ctx, at, rec, reasons.Detached, nil)
}

// readClaimed returns the record of a VF as it is now; found is false if the claim does not have the VF
// any more.
func (c *Claims) readClaimed(seen journal.Record) (rec journal.Record, found bool, err error) {
	records, err := c.Claimed(seen.Claim.UID)
	i := slices.IndexFunc(records, func(r journal.Record) bool { return r.ID == seen.ID })
	if err != nil || i < 0 {
		return rec, false, err
	}
	return records[i], true, nil
}

// isUntouched reports whether a prepared VF needs no reset. A VF of user space needs one: a pod may have
// used its device nodes without a lease. A VF that is gone has none.
func (c *Claims) isUntouched(ctx context.Context, rec journal.Record) bool {
	st, err := c.vfs.ReadVF(ctx, rec)
	return err == nil && st.Driver != vf.DriverVFIO && len(rec.Baseline.Diff(st)) == 0
}
