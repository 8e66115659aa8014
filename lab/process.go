package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// onThread runs f on an OS thread of its own, which ends with f. The kernel sends a parent-death
// signal when the thread that forked the child ends, not when its process ends. So f must both
// start the child and wait for it.
func onThread(f func()) {
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with f
		f()
	}()
}

// A process identifies a process by its number and its start time, since a later process can have
// the same number.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after boot, field 22 of proc_pid_stat(5)
}

// findProcess returns the running process pid. The error wraps os.ErrProcessDone if it has ended.
func findProcess(pid int) (process, error) {
	stat, err := os.Open(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) {
		return process{}, fmt.Errorf("process %d: %w", pid, os.ErrProcessDone)
	}
	if err != nil {
		return process{}, err
	}
	defer stat.Close()
	return readProcess(pid, stat)
}

// readProcess returns the process whose proc_pid_stat(5) is open. The kernel fails the read with
// ESRCH if the process has ended since it was opened.
func readProcess(pid int, from io.Reader) (process, error) {
	stat, err := io.ReadAll(from)
	if errors.Is(err, unix.ESRCH) {
		return process{}, fmt.Errorf("process %d: %w", pid, os.ErrProcessDone)
	}
	if err != nil {
		return process{}, err
	}
	start, state, err := parseStat(string(stat))
	if err == nil && (state == "Z" || state == "X") {
		err = fmt.Errorf("process %d: %w", pid, os.ErrProcessDone)
	}
	return process{pid, start}, err
}

// parseStat returns the start time and the state out of proc_pid_stat(5).
func parseStat(stat string) (start uint64, state string, err error) {
	_, rest, ok := cutLast(stat, ") ") // the name before may hold anything
	f := strings.Fields(rest)
	if !ok || len(f) < 20 {
		return 0, "", fmt.Errorf("parse process status %q: too short", stat)
	}
	start, err = strconv.ParseUint(f[19], 10, 64)
	return start, f[0], err
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// isAlive reports whether this very process still runs.
func (p process) isAlive() bool {
	now, err := findProcess(p.PID)
	return err == nil && now == p
}

// killAndWait ends the process, if it is still the same one, and waits until it is gone.
func (p process) killAndWait(sig unix.Signal, wait time.Duration) error {
	if p.PID <= 1 || !p.isAlive() {
		return nil
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", p.PID, err)
	}
	defer unix.Close(fd)
	if !p.isAlive() { // the descriptor may be of a later process with the same number
		return nil
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	for end := time.Now().Add(wait); p.isAlive(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("process %d still runs %s after %s", p.PID, wait, unix.SignalName(sig))
		}
	}
	return nil
}

// lockFile takes the lock name, and calls waiting once if it is held. The file exists only
// while a process holds the lock or waits for it.
func lockFile(ctx context.Context, name string, waiting func()) (unlock func(), err error) {
	for {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil && leadsTo(name, f):
			return func() { _ = os.Remove(name); f.Close() }, nil // a lock file that is left does no harm
		case err == nil: // the former holder removed this file: lock the new one
			f.Close()
			continue
		case !errors.Is(err, unix.EWOULDBLOCK):
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		f.Close()
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// leadsTo reports whether name still leads to the open file.
func leadsTo(name string, f *os.File) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(name)
	return err == nil && os.SameFile(open, there)
}
