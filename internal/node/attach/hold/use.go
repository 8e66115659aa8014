package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// usesBound is how long Outside waits for the kernel.
const usesBound = 10 * time.Second

// Outside returns the uses of VFs for which there is no lease, and leaves out VFs that are not
// used. Upkeep, take-over, the change of the number of VFs and new baselines ask it before they
// touch a VF that has no owner in the ledger (I2). A VF belongs to its user until that use ends:
// a pod to which the kubelet gave it, whatever plugin that pod uses; a process that has it open;
// another network namespace; the host's own network (kernel.Uses).
//
// An error means that culvertd could not find out about the VFs that are not in the answer.
func (h *VFs) Outside(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr]vf.Use, error) {
	out, err := h.UsesOf(ctx, vfs...)
	if h.Given == nil {
		return out, err
	}
	given, givenErr := h.kubelet.ask(ctx, h.Config)
	if givenErr != nil || given == nil {
		return out, errors.Join(err, givenErr)
	}
	for _, pci := range vfs {
		if pod := given(pci); pod != "" {
			out[pci] = vf.Use{Pod: pod}
		}
	}
	return out, err
}

// UsesOf is Outside without the kubelet. An attach asks it: the kubelet gave the VF to the pod whose
// ADD it is, or to none.
func (h *VFs) UsesOf(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr]vf.Use, error) {
	ctx, cancel := context.WithTimeout(ctx, usesBound)
	defer cancel()
	out, err := h.Kernel.Uses(ctx, vfs...)
	if out == nil {
		out = map[vf.PCIAddr]vf.Use{}
	}
	return out, err
}

// IsLeftToUser reports whether a VF without an owner in the ledger is used outside Culvert, or
// whether culvertd cannot find that out. It emits an event when a use begins or ends. A VF that
// is being taken back from an owner is not left: what is on it comes from that owner. The user of a
// prepared VF may be the claim's pod, which has the device nodes of the VF without a lease, so its use
// is no news.
func (h *VFs) IsLeftToUser(ctx context.Context, rec journal.Record) bool {
	if !rec.Lease.Owner.IsZero() {
		return false
	}
	ask := h.Outside
	if rec.Phase == vf.PhaseQuarantined {
		ask = h.UsesOf // the pod to which the kubelet gave it waits until it is clean
	}
	outside, err := ask(ctx, rec.PCI)
	use, used := outside[rec.PCI]
	if err != nil {
		h.Log.Info("a VF is left as it is until the next pass, since it may be in use", "vf", rec.ID, "err", err)
		return true // also if it is used: the kubelet may say later that its pod is the user
	}
	if rec.Claim == nil {
		h.NoteUse(rec, use)
	}
	return used
}

// NoteUse remembers the use of a VF outside Culvert; the zero value says that it is not used. It
// emits an event if that is news.
func (h *VFs) NoteUse(rec journal.Record, use vf.Use) {
	if h.LastUse(rec) == use {
		return
	}
	h.uses.Store(anyLease(rec), use)
	at, _ := h.FindSite(rec)
	event := rec.MakeEvent(journal.Warning, reasons.UsedOutside,
		fmt.Sprintf("vf %d of %s is used outside Culvert: %s. It is left as it is until that ends", rec.ID.Index, at.Label, use))
	if use == (vf.Use{}) {
		event.Type, event.Reason = journal.Normal, reasons.UseEnded
		event.Text = fmt.Sprintf("vf %d of %s is not used outside Culvert any more", rec.ID.Index, at.Label)
	}
	if err := h.Ledger.Update(func(tx *journal.Tx) error { return tx.Event(event) }); err != nil {
		h.Log.Warn("write an event", "event", event.Text, "err", err)
	}
}

// LastUse returns the use of a VF outside Culvert that IsLeftToUser or an attach saw last; the zero
// value says that it was not used.
func (h *VFs) LastUse(r journal.Record) vf.Use { return h.uses.Load(anyLease(r)) }

// anyLease stands for all leases of a VF in Engine.uses: each attempt of an attach makes a new one,
// and the use outside Culvert goes on.
func anyLease(r journal.Record) journal.Record { return journal.Record{ID: r.ID} }

// HostUse describes how the host was last seen to use a free VF. It returns "" if the VF was not
// used, or if the kubelet had given it to the pod that used it.
func (h *VFs) HostUse(r journal.Record) string {
	if use := h.LastUse(r); r.Phase == vf.PhaseFree && use != (vf.Use{}) && use.Pod == "" {
		return use.String()
	}
	return ""
}

// InUse returns an error that names the process which has the VF of a record open through vfio
// (vf.ErrHeld), nil when there is none.
func (h *VFs) InUse(ctx context.Context, rec journal.Record) error {
	all, err := h.Kernel.Users(ctx, rec.PCI)
	users := all[rec.PCI]
	if len(users) == 0 {
		return err
	}
	text := users[0].String()
	if more := len(users) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("VF %s: %w open by %s", rec.PCI, vf.ErrHeld, text)
}
