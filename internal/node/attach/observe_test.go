package attach_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/faulty"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node/attach"
	holds "github.com/culvert-net/culvert/internal/node/attach/hold"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// seen records what an Engine and a Resetter report to metrics.
type seen struct {
	t    *testing.T
	said []string
}

func (s *seen) noteCall(what string, took time.Duration, err error) {
	if took < 0 {
		s.t.Errorf("%s took %s", what, took)
	}
	if err != nil {
		what += " failed"
	}
	s.said = append(s.said, what)
}

func (s *seen) ObserveOperation(operation string, took time.Duration, err error) {
	s.noteCall(operation, took, err)
}

func (s *seen) ObserveStep(operation, step string, took time.Duration, err error) {
	if !slices.Contains(holds.StepsOf(operation), step) {
		s.t.Errorf("step %s of %s is not among StepsOf", step, operation)
	}
	s.noteCall(operation+" "+step, took, err)
}

func (s *seen) ObserveRetry(err error) { s.noteCall("retry", 0, err) }

func (s *seen) wantCalls(what string, want ...string) {
	s.t.Helper()
	if !slices.Equal(s.said, want) {
		s.t.Errorf("%s: observed %q, want %q", what, s.said, want)
	}
	s.said = nil
}

// The engine reports each attach and detach and their steps with their outcomes, even if an attach is
// refused or undone. An undo has no steps of a detach.
func TestDurationsAreObserved(t *testing.T) {
	_, n := newNode(t)
	s := &seen{t: t}
	n.VFs.Observe = s
	rec, err := n.Engine.Attach(t.Context(), everything(t))
	if err != nil {
		t.Fatal(err)
	}
	s.wantCalls("an attach", "attach reserve", "attach configure", "attach read_back", "attach record", "attach")
	if _, err := n.Engine.Attach(t.Context(), attach.Request{Owner: rec.Lease.Owner, VF: vf.PCIAddr{Bus: 99}}); err == nil || errors.Is(err, t.Context().Err()) {
		t.Errorf("got %v", err)
	}
	s.wantCalls("a refused attach", "attach reserve failed", "attach failed")
	if err := n.Resets.Detach(t.Context(), rec.Lease.Owner); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("a detach", "detach lock", "detach intent", "detach reset", "detach record", "detach")
	late := everything(t)
	late.Late = func(context.Context) (ipam.Config, error) { return ipam.Config{}, errors.New("no lease") }
	if _, err := n.Engine.Attach(t.Context(), late); err == nil {
		t.Error("the plugin gave no address")
	}
	s.wantCalls("an attach whose plugin fails", "attach reserve", "attach configure", "attach plugin failed", "attach undo", "attach failed")
}

// A retry of a VF in quarantine is reported with its outcome, and no other release is a retry.
func TestRetriesAreObserved(t *testing.T) {
	k, n := newNode(t)
	s := &seen{t: t}
	rec, err := n.Engine.Attach(t.Context(), everything(t))
	if err != nil {
		t.Fatal(err)
	}
	var fail atomic.Bool // an announcement may still run
	fail.Store(true)
	k.faults.Fail(func(faulty.Moment, step.Step) error {
		if fail.Load() {
			return errors.New("broken")
		}
		return nil
	})
	n.VFs.Observe = s
	if err := n.Resets.Detach(t.Context(), rec.Lease.Owner); err != nil {
		t.Fatal(err)
	}
	s.wantCalls("a detach into quarantine", "detach lock", "detach intent", "detach reset failed", "detach record", "detach")
	retry := func() {
		records, err := n.Records()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(records, func(r journal.Record) bool { return r.ID == rec.ID })
		at, err := n.VFs.FindSite(records[i])
		if err == nil {
			err = n.Resets.ReleaseVF(t.Context(), at, records[i], "Recovered", nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	retry()
	s.wantCalls("a retry that fails", "retry failed")
	fail.Store(false)
	retry()
	s.wantCalls("a retry that cleans the VF", "retry")
}
