package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

// runJobs runs jobs by the real tools/watch in a folder of its own, and returns what was
// printed with the times left out.
func runJobs(t *testing.T, jobs []job, signals <-chan os.Signal) (*runner, string, syscall.Signal) {
	t.Helper()
	tools, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Symlink(tools, "tools"); err != nil {
		t.Fatal(err)
	}
	plan, err := newSchedule(jobs, room{slots: 2, nodes: 4})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	r := &runner{plan: plan, meter: newMeter(), ended: make(chan end), start: startJob}
	r.show = &show{out: &out, dir: logs, every: time.Minute, now: time.Now}
	sig := r.runJobs(signals)
	return r, out.String(), sig
}

func shell(name, script string, needs ...string) job {
	return job{name: name, slots: 1, needs: needs, argv: []string{"sh", "-c", script}}
}

func TestRunnerRunsJobs(t *testing.T) {
	r, out, sig := runJobs(t, []job{
		shell("first", "echo one; touch done"),
		shell("second", "cat done && echo two", "first"),
		shell("wrong", "sleep 0.5; echo oh; exit 3"),
		shell("after", "echo never", "wrong"),
	}, nil)
	if sig != 0 {
		t.Errorf("it was ended by %v", sig)
	}
	// Which job is in front when one fails depends on how fast they are.
	out = regexp.MustCompile(`(?m)^==> wrong failed after .*\n`).ReplaceAllString(out, "")
	for _, want := range []string{"==> first\none\n==> first: ok, ", "==> second\ntwo\n==> second: ok, ", "==> wrong\noh\n==> wrong: failed, "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
	if strings.Contains(out, "never") {
		t.Errorf("a job ran although the one that it needs had failed:\n%s", out)
	}
	want := map[string]state{"first": passed, "second": passed, "wrong": failed, "after": skipped}
	if diff := cmp.Diff(want, r.plan.states); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	line, ok := r.finalVerdict()
	line = regexp.MustCompile(` [0-9]+ s`).ReplaceAllString(line, "")
	if ok || line != "make test: FAILED: wrong (build/log/wrong.log), after not run; passed: first, second" {
		t.Errorf("%v, %s", ok, line)
	}
}

// A job's nice value also holds for its session, if the kernel shares processors among
// sessions (autogroup).
func TestRunnerMakesSessionsNice(t *testing.T) {
	polite := shell("polite", "nice; cat /proc/self/autogroup || echo /autogroup-0 nice $(nice)")
	polite.nice = 5
	_, out, _ := runJobs(t, []job{polite}, nil)
	// The test itself may run with a nice value.
	values := regexp.MustCompile(`\n([0-9]+)\n(?:cat: .*\n)?/autogroup-[0-9]+ nice ([0-9]+)\n`).FindStringSubmatch(out)
	if len(values) != 3 || values[1] != values[2] || values[1] == "0" {
		t.Errorf("printed:\n%s", out)
	}
}

// A job that leaves a process behind has failed, and its process is gone.
func TestRunnerFindsOrphans(t *testing.T) {
	r, out, _ := runJobs(t, []job{shell("orphan", "sleep 300 & echo $! >pid")}, nil)
	if r.plan.states["orphan"] != failed || !strings.Contains(out, "orphan: left processes behind, which are ended now\n==> orphan: failed") {
		t.Errorf("%v:\n%s", r.plan.states, out)
	}
	checkGone(t, "pid")
}

// A signal ends all jobs with their processes, also those that do not react at once. The
// runner starts no more jobs.
func TestRunnerEndsBySignal(t *testing.T) {
	signals := make(chan os.Signal, 2)
	go func() {
		for !isThere("pid") || !isThere("beside") { // in the folder that runJobs makes
			time.Sleep(10 * time.Millisecond)
		}
		signals <- syscall.SIGINT
		signals <- syscall.SIGTERM // a second one changes nothing
	}()
	slow := "trap 'sleep 0.5; echo taken down; exit' TERM; echo $$ >pid; while :; do sleep 0.1; done"
	r, out, sig := runJobs(t, []job{shell("slow", slow), shell("beside", "echo $$ >beside; sleep 300"), shell("next", "echo never", "slow")}, signals)
	if sig != syscall.SIGINT {
		t.Errorf("it was ended by %v", sig)
	}
	if !strings.Contains(out, "taken down\n") || strings.Contains(out, "never") {
		t.Errorf("printed:\n%s", out)
	}
	if r.countRunning() != 0 {
		t.Errorf("%d jobs still run", r.countRunning())
	}
	checkGone(t, "pid")
	checkGone(t, "beside")
}

// A signal that comes very early also ends the job, and tools/watch leaves no process.
func TestWatchEndsByAnEarlySignal(t *testing.T) {
	tools, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var g errgroup.Group
	for i := range 24 {
		g.Go(func() error {
			pid := filepath.Join(dir, fmt.Sprint("pid", i))
			cmd := exec.CommandContext(t.Context(), filepath.Join(tools, "watch"), fmt.Sprint("job", i), "sh", "-c", `echo $$ >"$0"; exec sleep 300`, pid)
			cmd.Dir = dir
			cmd.Stderr = &bytes.Buffer{} // a pipe, which any process that stays keeps open
			cmd.WaitDelay = 20 * time.Second
			if err := cmd.Start(); err != nil {
				return err
			}
			for !isThere(filepath.Join(dir, logs, fmt.Sprintf("job%d.log", i))) { // it is about to start the command
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Duration(i) * time.Millisecond)
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				return err
			}
			if err := cmd.Wait(); errors.Is(err, exec.ErrWaitDelay) {
				t.Errorf("%d ms after its log was made: something of it stays", i)
			}
			if isThere(pid) {
				checkGone(t, pid)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

func isThere(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// checkGone checks that the process whose number is in a file has ended.
func checkGone(t *testing.T, file string) {
	t.Helper()
	pid, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") {
		t.Errorf("there is still %s", stat)
	}
}

func TestRoomFor(t *testing.T) {
	for _, c := range []struct {
		cores, mib int
		want       room
	}{
		{2, 24 << 10, room{2, 7}},
		{1, 8 << 10, smallest},
		{16, 64 << 10, room{16, 23}},
	} {
		if got := roomFor(c.cores, c.mib); got != c.want {
			t.Errorf("%d cores and %d MiB: %+v, want %+v", c.cores, c.mib, got, c.want)
		}
	}
}

func TestClean(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := removeOld(nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"unit.log", "lint.log", "old.tests"} {
		if err := os.WriteFile(filepath.Join(logs, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeOld([]job{{name: "unit"}, {name: "new"}}); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(logs + "/*")
	if want := []string{"build/log/lint.log"}; err != nil || cmp.Diff(want, left) != "" {
		t.Errorf("left: %v, %v; want %v", left, err, want)
	}
}
