package attach

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// usesBound is how long Outside waits for the kernel, and givenBound for the kubelet. Room waits
// as long for the kubelet.
const (
	usesBound  = 10 * time.Second
	givenBound = 2 * time.Second
)

// Outside returns the uses of VFs for which there is no lease, and leaves out VFs that are not
// used. Upkeep, take-over, the change of the number of VFs and new baselines ask it before they
// touch a VF that has no owner in the ledger (I2). A VF belongs to its user until that use ends:
// a pod to which the kubelet gave it, whatever plugin that pod uses; a process that has it open;
// another network namespace; the host's own network (kernel.Uses).
//
// An error means that the engine could not find out about the VFs that are not in the answer.
func (e *Engine) Outside(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr]vf.Use, error) {
	out, err := e.usesOf(ctx, vfs...)
	if e.Given == nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(ctx, givenBound)
	defer cancel()
	given, givenErr := e.Given(ctx)
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

// usesOf is Outside without the kubelet. An attach asks it: the kubelet gave the VF to the pod whose
// ADD it is, or to none.
func (e *Engine) usesOf(ctx context.Context, vfs ...vf.PCIAddr) (map[vf.PCIAddr]vf.Use, error) {
	ctx, cancel := context.WithTimeout(ctx, usesBound)
	defer cancel()
	out, err := e.Kernel.Uses(ctx, vfs...)
	if out == nil {
		out = map[vf.PCIAddr]vf.Use{}
	}
	return out, err
}

// isLeftToUser reports whether a VF without an owner in the ledger is used outside Culvert, or
// whether the engine cannot find that out. It emits an event when a use begins or ends. A VF that
// is being taken back from an owner is not left: what is on it comes from that owner.
func (e *Engine) isLeftToUser(ctx context.Context, rec journal.Record) bool {
	if !rec.Lease.Owner.IsZero() {
		return false
	}
	ask := e.Outside
	if rec.Phase == vf.PhaseQuarantined {
		ask = e.usesOf // the pod to which the kubelet gave it waits until it is clean
	}
	outside, err := ask(ctx, rec.PCI)
	use, used := outside[rec.PCI]
	if err != nil {
		e.Log.Info("a VF is left as it is until the next pass, since it may be in use", "vf", rec.ID, "err", err)
		return true // also if it is used: the kubelet may say later that its pod is the user
	}
	e.noteUse(rec, use)
	return used
}

// noteUse remembers the use of a VF outside Culvert; the zero value says that it is not used. It
// emits an event if that is news.
func (e *Engine) noteUse(rec journal.Record, use vf.Use) {
	if e.lastUse(rec) == use {
		return
	}
	e.uses.storeValue(anyLease(rec), use)
	at, _ := e.findSite(rec)
	event := journal.Event{Type: journal.Warning, Reason: "UsedOutside", Object: "VF " + rec.PCI.String()}
	event.Text = fmt.Sprintf("vf %d of %s is used outside Culvert: %s. It is left as it is until that ends", rec.ID.Index, at.label, use)
	if use == (vf.Use{}) {
		event.Type, event.Reason = journal.Normal, "UseEnded"
		event.Text = fmt.Sprintf("vf %d of %s is not used outside Culvert any more", rec.ID.Index, at.label)
	}
	if err := e.Ledger.Update(func(tx *journal.Tx) error { return tx.Event(event) }); err != nil {
		e.Log.Warn("write an event", "event", event.Text, "err", err)
	}
}

func (e *Engine) lastUse(r journal.Record) vf.Use { return e.uses.loadValue(anyLease(r)) }

// anyLease stands for all leases of a VF in Engine.uses: each attempt of an attach makes a new one,
// and the use outside Culvert goes on.
func anyLease(r journal.Record) journal.Record { return journal.Record{ID: r.ID} }

// HostUse describes how the host was last seen to use a free VF. It returns "" if the VF was not
// used, or if the kubelet had given it to the pod that used it.
func (e *Engine) HostUse(r journal.Record) string {
	if use := e.lastUse(r); r.Phase == vf.PhaseFree && use != (vf.Use{}) && use.Pod == "" {
		return use.String()
	}
	return ""
}
