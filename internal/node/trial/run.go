package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/reconcile"
	"github.com/culvert-net/culvert/internal/reasons"
)

// Begin applies content and gives the administrator window to confirm it, counted from the end of
// the work. plans are those for content. The file with the trial is durable before anything changes,
// and the trial goes on if the caller disconnects.
func (k *Keeper) Begin(ctx context.Context, content string, window time.Duration, plans []reconcile.PFPlan) error {
	free, err := k.Drop()
	if err != nil {
		return err
	}
	defer free()
	earlier, err := k.File.Content()
	if err != nil {
		return fmt.Errorf("read the host.yaml to go back to: %w", err)
	}
	r := Record{Began: k.Now(), Window: window, Boot: k.Boot, Content: content, Rules: k.findRules(earlier, plans)}
	if earlier != nil {
		text := string(earlier)
		r.Earlier = &text
	}
	if err := k.save(r); err != nil {
		return fmt.Errorf("put host.yaml on trial: %w", err)
	}
	k.mu.Lock()
	k.now = &r
	k.mu.Unlock()
	k.recordEvent(journal.Normal, reasons.HostTrial, fmt.Sprintf("host.yaml of %s is on trial for %s", clock(r.Began), window))
	if err := k.File.Put([]byte(content)); err != nil {
		k.endBy(k.Now())
		k.wake.Notify()
		return err
	}
	k.File.Read()
	if err := k.Host.Apply(context.WithoutCancel(ctx), false); err != nil {
		k.Log.Error("apply the host.yaml on trial", "err", err)
	}
	k.endBy(k.Now().Add(window))
	k.wake.Notify()
	return nil
}

// Revert ends the trial now, and goes back. done is false if the way back waits for owners of VFs.
func (k *Keeper) Revert(ctx context.Context) (done bool, err error) {
	if err := k.checkPending(); err != nil {
		return false, err
	}
	k.endBy(k.Now())
	done = k.goBack(context.WithoutCancel(ctx))
	k.wake.Notify()
	return done, nil
}

// Run goes back when the time of a trial is up, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	for {
		timer := time.NewTimer(k.nextLook())
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-k.wake:
			timer.Stop()
		}
		if k.isDue() {
			k.goBack(ctx)
		}
	}
}

// nextLook returns the time until the trial ends, or until the next try to go back.
func (k *Keeper) nextLook() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.now == nil || k.now.Until.IsZero():
		return time.Hour // Begin wakes
	case k.going:
		return retry
	}
	return max(0, k.now.Until.Sub(k.Now()))
}

// goBack brings the state before the trial back, and reports whether it is there. It may be called
// again at any time: each step is the same again.
func (k *Keeper) goBack(ctx context.Context) (done bool) {
	k.work.Lock()
	defer k.work.Unlock()
	k.mu.Lock()
	if k.now == nil || !k.isOver() { // another caller was faster, and another trial may have begun
		k.mu.Unlock()
		return true
	}
	r := *k.now
	k.going = true
	k.mu.Unlock()
	if k.isReplaced(r) {
		return k.endWithEvent(reasons.HostTrialReplaced, fmt.Sprintf("host.yaml of %s was written by another program during its trial: it stays as that program left it", clock(r.Began)))
	}
	// The network comes first: a full disk must not keep it away.
	spec := k.followEarlier(r)
	applied := k.Host.Apply(ctx, false)
	err := errors.Join(applied, k.File.Put(r.earlierContent()))
	left, planErr := k.findLeft(ctx, r, spec)
	if err = errors.Join(err, planErr); left == "" && err == nil {
		k.File.Read()
		return k.endWithEvent(reasons.HostWentBack, fmt.Sprintf("host.yaml of %s was not confirmed, and the one before it is in force", clock(r.Began)))
	}
	k.Log.Warn("go back to the host.yaml before the trial", "left", left, "err", err, "retry", retry)
	return false
}

func (k *Keeper) endWithEvent(reason, text string) bool {
	if err := k.Store.Put(nil); err != nil {
		k.Log.Error("end the trial of host.yaml", "err", err)
		return false
	}
	k.mu.Lock()
	k.now, k.going = nil, false
	k.mu.Unlock()
	k.recordEvent(journal.Warning, reason, text)
	return true
}

func (r Record) earlierContent() []byte {
	if r.Earlier == nil {
		return nil
	}
	return []byte(*r.Earlier)
}

// isReplaced reports whether host.yaml is neither the one on trial nor the one before it: an
// administrator wrote it by other means, and Culvert does not overwrite that.
func (k *Keeper) isReplaced(r Record) bool {
	content, err := k.File.Content()
	if err != nil {
		return false
	}
	isEarlier := (content == nil) == (r.Earlier == nil) && string(content) == string(r.earlierContent())
	return !isEarlier && string(content) != r.Content
}

// followEarlier makes culvertd want the state before the trial, and returns it.
func (k *Keeper) followEarlier(r Record) desired.Spec {
	spec, err := desired.Parse("host.yaml", r.earlierContent())
	if err != nil { // it was wrong before, too
		spec = desired.Spec{}
	}
	if r.Boot == k.Boot { // no earlier state outlives a reboot
		spec.PFs = append(r.Rules, spec.PFs...)
	}
	k.File.Follow(spec)
	return spec
}

// findLeft names the PFs that are not yet as they were before the trial; "" for none.
func (k *Keeper) findLeft(ctx context.Context, r Record, spec desired.Spec) (left string, err error) {
	plans, err := k.Host.PlanFor(ctx, k.Preview(spec))
	if err != nil {
		return "", err
	}
	for _, p := range plans {
		if r.Boot == k.Boot && hasRule(r.Rules, p.PF) && p.Err == nil && len(p.Changes) > 0 {
			left += " " + p.PF.Label()
		}
	}
	return left, nil
}
