package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// limit is a memory cgroup with the memory limit of the DaemonSet.
type limit struct {
	dir   string
	bytes int
	peak  string // its file with the peak of its memory
	kills string // its file with the number of processes that the kernel ended
}

// newLimit makes a memory cgroup of version 2 or 1. Only root of the host can.
func newLimit(t *testing.T) (limit, error) {
	t.Helper()
	manifest, err := os.ReadFile("../../dist/kubernetes/culvert.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?s)kind: DaemonSet.*?limits:\s*(?:\{\s*)?memory: (\d+)Mi`).FindSubmatch(manifest)
	if found == nil {
		t.Fatal("the DaemonSet has no memory limit")
	}
	n, _ := strconv.Atoi(string(found[1])) // digits
	name := fmt.Sprintf("culvert-attack-%d", os.Getpid())
	var failed error
	for _, l := range []limit{
		{filepath.Join("/sys/fs/cgroup", name), n * mib, "memory.peak", "memory.events"},
		{filepath.Join("/sys/fs/cgroup/memory", name), n * mib, "memory.max_usage_in_bytes", "memory.oom_control"},
	} {
		file := "memory.max"
		if l.kills == "memory.oom_control" {
			file = "memory.limit_in_bytes"
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(l.dir), "cgroup.procs")); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		err := errors.Join(os.Mkdir(l.dir, 0o755), os.WriteFile(filepath.Join(l.dir, file), []byte(strconv.Itoa(l.bytes)), 0o644))
		if err != nil {
			_ = os.Remove(l.dir)
			failed = errors.Join(failed, err)
			continue
		}
		t.Cleanup(func() { l.remove(t) })
		return l, nil
	}
	return limit{}, failed
}

// remove kills the processes that a failed test has left in the cgroup, and removes the
// cgroup.
func (l limit) remove(t *testing.T) {
	var err error
	for range 50 {
		if err = os.Remove(l.dir); err == nil {
			return
		}
		left, _ := os.ReadFile(filepath.Join(l.dir, "cgroup.procs"))
		for _, word := range strings.Fields(string(left)) {
			if pid, err := strconv.Atoi(word); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Error(err)
}

// program returns a program that runs another one within the limit, as the same process.
func (l limit) program(t *testing.T, program string) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "limited")
	text := fmt.Sprintf("#!/bin/sh\necho $$ >%s/cgroup.procs && exec %s \"$@\"\n", l.dir, program)
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return script
}

// check fails the test when the kernel has ended a process within the limit.
func (l limit) check(t *testing.T) {
	t.Helper()
	peak, err := os.ReadFile(filepath.Join(l.dir, l.peak))
	events, err2 := os.ReadFile(filepath.Join(l.dir, l.kills))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	kills := regexp.MustCompile(`(?m)^oom_kill (\d+)$`).FindSubmatch(events)
	t.Logf("within the DaemonSet's limit of %d MiB: at most %s bytes with the page cache", l.bytes/mib, strings.TrimSpace(string(peak)))
	if len(kills) < 2 || string(kills[1]) != "0" {
		t.Errorf("the kernel ended culvertd at the DaemonSet's limit: %s", events)
	}
}
