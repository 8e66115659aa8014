package attach

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// A runtime that lost a pod sends no DEL for it. endIfLost asks the cluster about such a
// pod as often as lostLook at most, and ends the lease after lostWait.
const (
	lostLook  = 20 * time.Second
	lostWait  = 5 * time.Minute
	lostBound = 5 * time.Second // for the answers; a DEL of the lease waits meanwhile
)

// absences remembers which pods the cluster does not know. It is in memory only, so the
// wait starts again with culvertd. The zero value is ready.
type absences struct {
	mu sync.Mutex // guards of
	of map[vf.ID]absence
}

// absence records the cluster's answers about the pod of one lease.
type absence struct {
	generation uint64
	asked      time.Time // last
	since      time.Time // zero: the last answer was not that the pod is unknown
}

func (a *absences) load(r journal.Record) absence {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last := a.of[r.ID]; last.generation == r.Generation {
		return last
	}
	return absence{generation: r.Generation}
}

func (a *absences) store(id vf.ID, now absence) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[vf.ID]absence{}
	}
	a.of[id] = now
}

func (a *absences) forget(id vf.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of, id)
}

// attachedTask returns the upkeep that an attached VF of a listing needs, nil for none.
func (e *Engine) attachedTask(ctx context.Context, r journal.Record, st vf.State) func() error {
	drift := e.driftTask(ctx, r, st)
	if e.KnowsPod == nil || r.Lease.Owner.Kind != vf.OwnerPod || !isBack(st) {
		e.absent.forget(r.ID)
		return drift
	}
	if since := e.Now().Sub(e.absent.load(r).asked); since >= 0 && since < lostLook {
		return drift
	}
	return func() error {
		if ended, err := e.endIfLost(ctx, r); ended || err != nil || drift == nil {
			return err
		}
		return drift()
	}
}

// isBack reports whether a VF, as the host sees it, may have come back from its pod: its
// interface is on the host, as it is when the pod's netns has gone, or it has no driver
// and so no interface. A VF of vfio has no netns; it is back when no process has it open,
// which podGone asks.
func isBack(st vf.State) bool {
	if st.Driver == vf.DriverVFIO || st.Driver == "" {
		return true
	}
	return st.Link != nil && st.Link.Netns == ""
}

// endIfLost ends the lease of a pod whose DEL was lost: the VF is back from the pod, and
// neither the API server nor the kubelet has known the pod for lostWait. An answer that
// fails counts as "known". It runs with the VF locked, so no ADD or DEL of it runs.
func (e *Engine) endIfLost(ctx context.Context, seen journal.Record) (ended bool, err error) {
	rec, same, err := e.current(seen)
	if err != nil || !same || rec.Phase != journal.Attached {
		return false, err
	}
	last := e.absent.load(rec)
	gone, err := e.podGone(ctx, rec)
	if err != nil {
		e.Log.Debug("leave the lease of a VF that is back from its pod", "vf", rec.ID, "owner", rec.Lease.Owner, "err", err)
	}
	last.asked = e.Now()
	switch {
	case err != nil || !gone:
		last.since = time.Time{}
	case last.since.IsZero() || last.since.After(last.asked): // the latter: the clock was set back
		last.since = last.asked
	case last.asked.Sub(last.since) >= lostWait:
		e.absent.forget(rec.ID)
		return true, e.finish(ctx, rec, "PodGone", fmt.Errorf(
			"no DEL came: the VF is back from the pod, and neither the API server nor the kubelet has known the pod for %s", lostWait))
	}
	e.absent.store(rec.ID, last)
	return false, nil
}

// podGone reports whether the cluster does not know the pod and the VF is back from it.
func (e *Engine) podGone(ctx context.Context, rec journal.Record) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, lostBound)
	defer cancel()
	if known, err := e.KnowsPod(ctx, rec.Lease); err != nil || known {
		return false, err
	}
	st, err := e.look(ctx, rec)
	if err != nil || st.Driver != vf.DriverVFIO {
		return isBack(st), err
	}
	err = e.InUse(ctx, rec)
	return err == nil, err
}
