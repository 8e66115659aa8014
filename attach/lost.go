package attach

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// A runtime that lost a pod sends no DEL for it. endIfLost asks the cluster about such a pod at
// most once every lostLook, and ends the lease after lostWait.
const (
	lostLook  = 20 * time.Second
	lostWait  = 5 * time.Minute
	lostBound = 5 * time.Second // for the answers; a DEL of the lease waits meanwhile
)

// absence records the cluster's answers about the pod of one lease. It is in memory only, so the
// wait begins anew when culvertd restarts.
type absence struct {
	asked time.Time // last
	since time.Time // zero: the last answer was not that the pod is unknown
	// runs is since when the answers say that the pod is known, and reported whether the pod has an
	// event that its VF is back.
	runs     time.Time
	reported bool
}

// attachedTask returns the upkeep that an attached VF of a listing needs, nil for none. What the PF
// holds for the VF is mended first: its interface may depend on that.
func (e *Engine) attachedTask(ctx context.Context, r journal.Record, pf vf.PF, st vf.State) func() error {
	drift := e.driftTask(ctx, r, st)
	if first := drift; first != nil || e.needsLook(r, pf) {
		drift = func() error {
			var err error
			if first != nil {
				err = first()
			}
			if e.needsLook(r, pf) { // what cannot be mended does not hide the interface
				err = errors.Join(err, e.tendLink(ctx, r, pf))
			}
			return err
		}
	}
	if e.KnowsPod == nil || r.Lease.Owner.Kind != vf.OwnerPod || !isBack(st) {
		e.absent.forgetValue(r.ID)
		return drift
	}
	if since := e.Now().Sub(e.absent.loadValue(r).asked); since >= 0 && since < lostLook {
		return drift
	}
	return func() error {
		if ended, err := e.endIfLost(ctx, r, st.Driver != vf.DriverVFIO); ended || err != nil || drift == nil {
			return err
		}
		return drift()
	}
}

// isBack reports whether a VF may have come back from its pod, by what the host shows. The VF is
// back if its interface is on the host, where the kernel moves it when the pod's netns ends, or
// if it has no driver and so no interface. A VF of vfio is back when no process has it open,
// which podGone finds out.
func isBack(st vf.State) bool {
	if st.Driver == vf.DriverVFIO || st.Driver == "" {
		return true
	}
	return st.Link != nil && st.Link.Netns == ""
}

// endIfLost ends the lease of a pod whose DEL was lost: the VF is back from the pod, and
// neither the API server nor the kubelet has known the pod for lostWait. An answer that
// fails counts as "known". surelyBack is false for a VF of vfio, which may be open. It runs with the VF locked, so no ADD or DEL of it runs.
func (e *Engine) endIfLost(ctx context.Context, seen journal.Record, surelyBack bool) (ended bool, err error) {
	rec, same, err := e.currentRecord(seen)
	if err != nil || !same || rec.Phase != journal.Attached {
		return false, err
	}
	last := e.absent.loadValue(rec)
	gone, err := e.podGone(ctx, rec)
	if err != nil {
		e.Log.Debug("leave the lease of a VF that is back from its pod", "vf", rec.ID, "owner", rec.Lease.Owner, "err", err)
	}
	last.asked = e.Now()
	e.noteRunning(rec, &last, surelyBack && err == nil && !gone)
	switch {
	case err != nil || !gone:
		last.since = time.Time{}
	case last.since.IsZero() || last.since.After(last.asked): // the latter: the clock was set back
		last.since = last.asked
	case last.asked.Sub(last.since) >= lostWait:
		e.absent.forgetValue(rec.ID)
		return true, e.releaseLocked(ctx, rec, "PodGone", fmt.Errorf(
			"no DEL came: the VF is back from the pod, and neither the API server nor the kubelet has known the pod for %s", lostWait))
	}
	e.absent.storeValue(rec, last)
	return false, nil
}

// noteRunning reports a VF that is back on the host for longer than a runtime takes to end a pod,
// while the cluster knows the pod: the pod runs without its interface.
func (e *Engine) noteRunning(rec journal.Record, last *absence, runs bool) {
	switch {
	case !runs:
		last.runs = time.Time{}
	case last.runs.IsZero() || last.runs.After(last.asked):
		last.runs = last.asked
	case !last.reported && last.asked.Sub(last.runs) >= lostLook:
		last.reported = true
		e.reportBack(rec)
	}
}

// podGone reports whether the cluster does not know the pod and the VF is back from it.
func (e *Engine) podGone(ctx context.Context, rec journal.Record) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, lostBound)
	defer cancel()
	if known, err := e.KnowsPod(ctx, rec.Lease); err != nil || known {
		return false, err
	}
	st, err := e.readVF(ctx, rec)
	if err != nil || st.Driver != vf.DriverVFIO {
		return isBack(st), err
	}
	err = e.InUse(ctx, rec)
	return err == nil, err
}
