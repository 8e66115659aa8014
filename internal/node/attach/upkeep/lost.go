package upkeep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// A runtime that has lost its record of a pod sends no DEL for it. endIfLost asks the cluster about
// such a pod at most once every lostLook, and ends the lease after lostWait.
const (
	lostLook  = 20 * time.Second
	lostWait  = 5 * time.Minute
	lostBound = 5 * time.Second // for the answers; a DEL of the lease waits meanwhile
)

// absence records the cluster's answers about the pod of one lease. It is in memory only, so the
// wait starts again when culvertd restarts.
type absence struct {
	asked time.Time // last
	since time.Time // zero: the last answer was not that the pod is unknown
	// runs is the time since which the cluster has known the pod while its VF is back on the host.
	// reported is true if the pod has had an event about that.
	runs     time.Time
	reported bool
}

// attachedTask returns the upkeep that an attached VF of a listing needs, or nil if it needs none.
// The task first restores the settings that the PF holds for the VF, since the VF's interface may
// depend on them.
func (k *Keeper) attachedTask(ctx context.Context, r journal.Record, pf vf.PF, st vf.State) func() error {
	drift := k.driftTask(ctx, r, st)
	if first := drift; first != nil || k.links.needsLook(r, pf) {
		drift = func() error {
			var err error
			if first != nil {
				err = first()
			}
			if k.links.needsLook(r, pf) { // even if the PF's settings could not be mended
				err = errors.Join(err, k.links.tendLink(ctx, r, pf))
			}
			return err
		}
	}
	if k.KnowsPod == nil || r.Lease.Owner.Kind != vf.OwnerPod || !isBack(st) {
		k.absent.Forget(r.ID)
		return drift
	}
	if since := k.vfs.Now().Sub(k.absent.Load(r).asked); since >= 0 && since < lostLook {
		return drift
	}
	return func() error {
		if ended, err := k.endIfLost(ctx, r, st.Driver != vf.DriverVFIO); ended || err != nil || drift == nil {
			return err
		}
		return drift()
	}
}

// isBack reports whether, as far as the host shows, a VF may have come back from its pod. The VF is
// back if its interface is on the host, to which the kernel moves it when the pod's netns ends. It
// is also back if it has no driver and so no interface. A VF bound to vfio-pci is back when no
// process has it open, which podGone checks.
func isBack(st vf.State) bool {
	if st.Driver == vf.DriverVFIO || st.Driver == "" {
		return true
	}
	return st.Link != nil && st.Link.Netns == ""
}

// endIfLost ends the lease of a pod whose DEL was lost: the VF is back from the pod, and neither
// the API server nor the kubelet has known the pod for lostWait. If the cluster does not answer,
// the pod counts as known. surelyBack is false for a VF bound to vfio-pci, since a process may have
// it open. The caller holds the lock of the VF, so no ADD or DEL of the VF runs meanwhile.
func (k *Keeper) endIfLost(ctx context.Context, seen journal.Record, surelyBack bool) (ended bool, err error) {
	rec, same, err := k.vfs.CurrentRecord(seen)
	if err != nil || !same || rec.Phase != vf.PhaseAttached {
		return false, err
	}
	last := k.absent.Load(rec)
	gone, err := k.podGone(ctx, rec)
	if err != nil {
		k.vfs.Log.Debug("leave the lease of a VF that is back from its pod", "vf", rec.ID, "owner", rec.Lease.Owner, "err", err)
	}
	last.asked = k.vfs.Now()
	k.noteRunning(rec, &last, surelyBack && err == nil && !gone)
	switch {
	case err != nil || !gone:
		last.since = time.Time{}
	case last.since.IsZero() || last.since.After(last.asked): // the latter: the clock was set back
		last.since = last.asked
	case last.asked.Sub(last.since) >= lostWait:
		k.absent.Forget(rec.ID)
		return true, k.resets.ReleaseLocked(ctx, rec, reasons.PodGone, fmt.Errorf(
			"no DEL came: the VF is back from the pod, and neither the API server nor the kubelet has known the pod for %s", lostWait))
	}
	k.absent.Store(rec, last)
	return false, nil
}

// noteRunning emits an event of a pod that runs without its interface: the VF is back on the host
// although the cluster knows the pod, and for longer than a runtime takes to end a pod.
func (k *Keeper) noteRunning(rec journal.Record, last *absence, runs bool) {
	switch {
	case !runs:
		last.runs = time.Time{}
	case last.runs.IsZero() || last.runs.After(last.asked):
		last.runs = last.asked
	case !last.reported && last.asked.Sub(last.runs) >= lostLook:
		last.reported = true
		k.reports.reportBack(rec)
	}
}

// podGone reports whether the cluster does not know the pod and the VF has come back from it.
func (k *Keeper) podGone(ctx context.Context, rec journal.Record) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, lostBound)
	defer cancel()
	if known, err := k.KnowsPod(ctx, rec.Lease); err != nil || known {
		return false, err
	}
	st, err := k.vfs.ReadVF(ctx, rec)
	if err != nil || st.Driver != vf.DriverVFIO {
		return isBack(st), err
	}
	err = k.vfs.InUse(ctx, rec)
	return err == nil, err
}
