package agent

import (
	"syscall"
	"testing"
	"time"

	"github.com/culvert-net/culvert/bench"
)

// Until an engine begins, polls take a small part of the agent's time, and have no priority over the
// engine. The window is sampled with the highest priority.
func TestSpotBeginningLeavesTheProcessor(t *testing.T) {
	const polls, takes = 10, 2 * time.Millisecond
	polled := 0
	start := time.Now()
	_, _, err := spotBeginning(func() (bool, error) {
		for begin := time.Now(); time.Since(begin) < takes; { // an emulated node reads and parses files
		}
		polled++
		return polled == polls, nil
	}, func() error { return nil })
	if took, busy := time.Since(start), polls*takes; err != nil || took < 4*busy {
		t.Errorf("%d polls that take %s are done after %s, %v", polls, busy, took, err)
	}

	priority := func() int { // of the thread; 20 is the usual one and 40 the highest (getpriority(2))
		got, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
		if err != nil {
			t.Error(err)
		}
		return got
	}
	own := priority()
	var highest, waiting, sampling int
	if err := runPromptly(func() error { highest = priority(); return nil }); err != nil {
		t.Fatal(err)
	}
	_, err = callTimed(t.Context(), bench.Workload{Seconds: 0.01},
		func() (bool, error) { waiting = priority(); return true, nil }, nil,
		marks{planned: func(Window) {}, begin: func() { sampling = priority() }, end: func() {}})
	if err != nil || waiting != own || sampling != highest {
		t.Errorf("priority %d before traffic flows and %d in the window, want %d and %d, %v", waiting, sampling, own, highest, err)
	}
}

// Traffic goes on after the window for one to two seconds, and longer after a longer window.
func TestIperfSeconds(t *testing.T) {
	for w, want := range map[bench.Workload]string{
		{Seconds: 0.5}: "2", {Seconds: 2}: "3", {Seconds: 4}: "6", {Warmup: 1, Seconds: 10}: "13",
	} {
		if got := iperfSeconds(w); got != want {
			t.Errorf("warm-up %g s, window %g s: %s s, want %s", w.Warmup, w.Seconds, got, want)
		}
	}
}
