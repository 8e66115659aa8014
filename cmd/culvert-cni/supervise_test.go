package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
)

// TestMain lets the test program be the shim that executes itself as a supervisor, and a shim that
// is killed.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 3 && os.Args[1] == superviseCommand:
		os.Exit(supervise(os.Args[2], os.Environ()))
	case len(os.Args) == 3 && os.Args[1] == "shim":
		_, err := run(context.Background(), shim{environ: os.Environ()}, "hang", api.CNIRequest{Path: os.Args[2]})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// mark is a variable in the environment of all processes that a test starts through the shim.
const mark = "CULVERT_TEST_MARK"

// marked returns a shim whose plugins have a mark of their own, and a function that returns the
// running processes with that mark. Those that are left are killed at the end of the test.
func marked(t *testing.T) (s shim, left func() []int) {
	t.Helper()
	value := fmt.Sprintf("%s=%s-%d", mark, t.Name(), os.Getpid())
	left = func() (pids []int) {
		files, err := filepath.Glob("/proc/[0-9]*/environ")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file) // a zombie has none
			if pid, number := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && number == nil && bytes.Contains(text, []byte(value+"\x00")) {
				pids = append(pids, pid)
			}
		}
		return pids
	}
	t.Cleanup(func() {
		for _, pid := range left() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return shim{environ: append(os.Environ(), value)}, left
}

// await waits until ok returns true.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in 20 s: %s", what)
		}
	}
}

// The plugins of the attacks. chain executes itself as its IPAM plugin, as ptp of the CNI project
// does with ipam.type ptp, each time in a session of its own, 400 times at most. escape leaves two
// processes in sessions of their own, whose parents end. flee does that again and again, for 40 s at most.
var attacks = map[string]string{
	"chain": `n=$((${N:-0} + 1)); export N=$n; [ $n -lt 400 ] || exec sleep 100
setsid "$0" & wait`,
	"escape": `(setsid sleep 100 >/dev/null 2>&1 &); (setsid sh -c '(setsid sleep 100 & sleep 0.1) & sleep 0.1' >/dev/null 2>&1 &); sleep 100`,
	"flee": `n=$((${N:-0} + 1)); export N=$n; [ $n -lt 400 ] || exit 0
sleep 0.1; setsid "$0" >/dev/null 2>&1 &
[ $n -gt 1 ] || sleep 100`,
}

// A tenant names the IPAM plugin of a network. At the deadline no process of a plugin is left, also
// if it has a session of its own and its parents have ended.
func TestDeadlineLeavesNoProcess(t *testing.T) {
	dir := scripts(t, attacks)
	for name := range attacks {
		t.Run(name, func(t *testing.T) {
			s, left := marked(t)
			ctx, end := context.WithCancel(t.Context())
			defer end()
			done := make(chan error, 1)
			go func() {
				_, err := run(ctx, s, name, api.CNIRequest{Path: dir})
				done <- err
			}()
			await(t, "the plugin starts others", func() bool { return len(left()) >= 4 })
			time.Sleep(300 * time.Millisecond)
			end()
			if err := <-done; err == nil || !strings.Contains(err.Error(), "did not end in time and was killed") {
				t.Error(err)
			}
			for range 5 { // a look misses a process that starts another and ends
				if pids := left(); len(pids) > 0 {
					t.Fatalf("%d processes are left", len(pids))
				}
			}
		})
	}
}

// A shim runs several plugins at once. The deadline of one ends no process of another.
func TestDeadlineEndsOnePlugin(t *testing.T) {
	dir := scripts(t, map[string]string{
		"escape": attacks["escape"],
		"other":  `(setsid sh -c 'sleep 1; echo late' &) ; sleep 0.2; (setsid sh -c 'sleep 1; echo later' &); sleep 1.5; echo end`,
	})
	s, left := marked(t)
	other, _ := marked(t)
	other.environ = os.Environ()
	ended := make(chan struct{})
	defer func() { <-ended }()
	go func() {
		defer close(ended)
		got, err := run(t.Context(), other, "other", api.CNIRequest{Path: dir})
		if err != nil || string(got.Stdout) != "late\nlater\nend\n" {
			t.Errorf("%q, %v", got.Stdout, err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := run(ctx, s, "escape", api.CNIRequest{Path: dir}); err == nil || len(left()) > 0 {
		t.Errorf("%d processes are left, %v", len(left()), err)
	}
}

// A runtime kills the shim when its own time is over. No process of the plugin is left then either.
func TestDeathOfTheShimLeavesNoProcess(t *testing.T) {
	dir := scripts(t, map[string]string{"hang": attacks["escape"]})
	s, left := marked(t)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "shim", dir)
	cmd.Env = s.environ
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the plugin starts others", func() bool { return len(left()) >= 5 })
	if err := errors.Join(cmd.Process.Kill(), cmd.Wait()); err == nil {
		t.Error("the shim was not killed")
	}
	await(t, "all processes end", func() bool { return len(left()) == 0 })
}

// culvertd waits a little longer for the answer than the plugin may run.
func TestBoundOfThePlugin(t *testing.T) {
	dir := scripts(t, map[string]string{"hang": "sleep 100"})
	s := shim{environ: os.Environ()}
	_, err := s.answerDaemon(t.Context(), api.MethodPlugin, []byte(fmt.Sprintf(`{"type":"hang","boundMs":100,"call":{"path":%q}}`, dir)))
	var e *api.Error
	if !errors.As(err, &e) || e.Code != "deadline" {
		t.Errorf("%v", err)
	}
}

// An error says which processes survive. A dead process that its parent does not wait for stands for
// one that hangs in the kernel.
func TestSurvivorsAreNamed(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "100")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	pid := cmd.Process.Pid
	err := killAll(pid, nil, time.After(50*time.Millisecond))
	if want := fmt.Sprintf("1 processes that it started survive SIGKILL: PIDs %d", pid); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if !isChildOf(pid, 1, os.Getpid()) || isChildOf(pid, 1) || isChildOf(-1, 1) {
		t.Error("the parent of a process")
	}
}

// BenchmarkPlugin measures one call of a plugin that does nothing, with its supervisor and without.
func BenchmarkPlugin(b *testing.B) {
	s := shim{environ: os.Environ()}
	b.Run("supervised", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.runPlugin(b.Context(), "/bin/true", api.PluginRequest{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("alone", func(b *testing.B) {
		for b.Loop() {
			if err := exec.CommandContext(b.Context(), "/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
