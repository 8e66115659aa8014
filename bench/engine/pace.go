package engine

import (
	"context"
	"math"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// pace is a schedule for a number of things in a second. The zero value delays nothing.
type pace struct {
	rate  float64 // a second
	start time.Time
	done  float64
}

// behind bounds how much of a schedule a sender catches up with, in seconds. It drops what is
// overdue for longer, so that no flood follows a stall.
const behind = 0.1

// nextDue returns how many things are due, but no more than most. It waits until one is, and
// returns 0 when ctx ends.
func (p *pace) nextDue(ctx context.Context, most int) int {
	if p.rate == 0 {
		if ctx.Err() != nil {
			return 0
		}
		return most
	}
	if p.start.IsZero() {
		p.start = time.Now()
	}
	for ctx.Err() == nil {
		due := time.Since(p.start).Seconds()*p.rate + 1 - p.done
		if late := due - math.Max(behind*p.rate, float64(most)); late > 0 {
			p.done += late
			due -= late
		}
		if due >= 1 {
			n := min(most, int(due))
			p.done += float64(n)
			return n
		}
		pauseUntil(ctx, time.Now().Add(secondsLong((1-due)/p.rate)))
	}
	return 0
}

// pauseUntil returns at due, or before it when ctx ends. Go's own timers are late by up to a
// millisecond (epoll_wait(2) counts in those), so that the last part is slept by the kernel.
func pauseUntil(ctx context.Context, due time.Time) {
	const coarse = 2 * time.Millisecond
	if early := time.Until(due) - coarse; early > 0 {
		timer := time.NewTimer(early)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
	if early := time.Until(due); early > 0 {
		left := unix.NsecToTimespec(early.Nanoseconds())
		_ = unix.Nanosleep(&left, nil) // a signal ends it early: that is no harm
	}
}

// wakePrecisely keeps the goroutine on one thread that wakes at the requested time, and not up to
// the usual 50 microseconds later (PR_SET_TIMERSLACK in prctl(2)). The caller must call undo.
func wakePrecisely() (undo func()) {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // without it, it is a little late
	return func() {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // 0 is the usual one
		runtime.UnlockOSThread()
	}
}
