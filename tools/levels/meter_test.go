package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The time of each process counts once: with the process while it runs, then with the
// process of the job that waited for it. If there is none, its time at the last look counts.
func TestMeterCountsEachProcessOnce(t *testing.T) {
	m := newMeter()
	lab := func(parent int, start string, seconds int) proc {
		return proc{"lab", parent, start, time.Duration(seconds) * time.Second}
	}
	m.takeProcesses(map[int]proc{10: lab(1, "a", 1), 11: lab(10, "b", 5), 12: lab(11, "c", 2), 20: lab(1, "d", 40)})
	m.takeProcesses(map[int]proc{10: lab(1, "a", 8), 20: lab(1, "d", 50)}) // 10 has waited for 11, 11 for 12
	m.takeProcesses(map[int]proc{10: lab(1, "a", 9)})                      // 20 has ended, and no process of its job waited for it
	if got, want := m.describeTimes(), "processor time by job: lab 59 s"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	m.takeProcesses(map[int]proc{10: {"unit", 1, "later", 70 * time.Second}, 30: {"fuzz", 1, "z", time.Second}}) // another process has that number
	if got, want := m.describeTimes(), "processor time by job: unit 70 s, lab 59 s, fuzz 1 s"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestMeterFindsProcesses(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "100")
	cmd.Env = []string{"PATH=/usr/bin:/bin", jobVariable + "=real"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m := newMeter()
	for end := time.Now().Add(time.Minute); !strings.Contains(m.describeTimes(), "real 0 s"); { // until the process has its own environment
		if time.Now().After(end) {
			t.Fatalf("%q", m.describeTimes())
		}
		m.lookAtProcesses()
	}
	_ = cmd.Process.Kill() // it runs
	_ = cmd.Wait()         // it was killed
	if m.lookAtProcesses(); !strings.Contains(m.describeTimes(), "real 0 s") || m.seen[cmd.Process.Pid] != (proc{}) {
		t.Errorf("%q, %v", m.describeTimes(), m.seen)
	}
}

func TestParseProc(t *testing.T) {
	for stat, want := range map[string]proc{
		"7 (a) b)) S 3 7 7 0 -1 4194560 1 2 3 4 150 50 200 0 20 0 1 0 12345 1 2": {parent: 3, start: "12345", spent: 4 * time.Second},
		"7 (a) S 3 7": {},
		"7 (a) S 3 7 7 0 -1 4194560 1 2 3 4 x 50 200 0 20 0 1 0 12345": {},
		"": {},
	} {
		got, err := parseProc(stat)
		if got != want || (err == nil) != (want != proc{}) {
			t.Errorf("%q: %+v, %v", stat, got, err)
		}
	}
}
