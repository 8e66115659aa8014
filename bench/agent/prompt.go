package agent

import (
	"context"
	"runtime"
	"syscall"
	"time"

	"github.com/culvert-net/culvert/bench/evidence"
)

// runPromptly calls fn on a thread of its own with the highest priority, if the agent may set it
// (as root), since the measured traffic keeps the processors busy.
func runPromptly(fn func() error) error {
	return runAlone(func() error {
		raisePriority()
		return fn()
	})
}

// runAlone calls fn on a thread of its own, which is thrown away, so that no child and nothing else
// gets the priority that fn may give it.
func runAlone(fn func() error) error {
	done := make(chan error, 1)
	// The thread of a locked goroutine that ends without unlocking ends with it.
	go func() {
		runtime.LockOSThread()
		done <- fn()
	}()
	return <-done
}

// raisePriority gives this thread the highest priority, if the agent may set it.
func raisePriority() {
	const highest = -20
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, highest) // 0 is this thread (setpriority(2), Linux)
}

// sleepUntil waits for a moment of [evidence.Now], or until awake has an error, and returns the
// time at which it woke. It sleeps in the kernel, since threads without that priority serve Go's
// timers.
func sleepUntil(moment time.Duration, awake func() error) (time.Duration, error) {
	const longest = 50 * time.Millisecond
	for {
		if err := awake(); err != nil {
			return 0, err
		}
		now, err := evidence.Now()
		if err != nil || now >= moment {
			return now, err
		}
		t := syscall.NsecToTimespec(int64(min(moment-now, longest)))
		_ = syscall.Nanosleep(&t, nil) // a signal ends it early
	}
}

// waitFor waits for so long.
func waitFor(ctx context.Context, long time.Duration) error {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pollUntil calls ready until it returns true.
func pollUntil(ctx context.Context, every time.Duration, ready func() (bool, error)) error {
	for {
		ok, err := ready()
		if ok || err != nil {
			return err
		}
		if err := waitFor(ctx, every); err != nil {
			return err
		}
	}
}
