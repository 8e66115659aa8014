package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// onThread runs f on an OS thread of its own that lives as long as f.
// A parent-death signal is sent when the thread that forked ends, not when
// its process does, so whoever uses one starts and awaits the child in here.
func onThread(f func()) {
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with f
		f()
	}()
}

// A process is a process that can be told from a later one with its number.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after boot, field 22 of proc_pid_stat(5)
}

// findProcess returns the running process pid.
func findProcess(pid int) (process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
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

// alive tells whether this very process still runs.
func (p process) alive() bool {
	now, err := findProcess(p.PID)
	return err == nil && now == p
}

// kill ends the process, if it is still the same one, and waits until it is gone.
func (p process) kill(sig unix.Signal, wait time.Duration) error {
	if p.PID <= 1 || !p.alive() {
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
	if !p.alive() { // the descriptor may be of a successor
		return nil
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	for end := time.Now().Add(wait); p.alive(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("process %d still runs %s after %s", p.PID, wait, unix.SignalName(sig))
		}
	}
	return nil
}

// lockFile takes the lock name, and calls waiting once if it is held. The file is there
// only while somebody has the lock, or waits for it.
func lockFile(ctx context.Context, name string, waiting func()) (unlock func(), err error) {
	for {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil && leadsTo(name, f):
			return func() { _ = os.Remove(name); f.Close() }, nil // one that is left does no harm
		case err == nil: // whoever had it has removed it: this is nobody's lock
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

// leadsTo tells whether name is still the open file's.
func leadsTo(name string, f *os.File) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(name)
	return err == nil && os.SameFile(open, there)
}
