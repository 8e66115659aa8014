package lab

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

func TestLabPathsRefusesNames(t *testing.T) {
	for _, name := range []string{"", "..", "a/b", "A", "-x", strings.Repeat("a", 33)} {
		if _, err := labPaths(name); err == nil {
			t.Errorf("the name %q was taken", name)
		}
	}
	p, err := labPaths("a-1")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(p.socketPath()); n > 107 {
		t.Errorf("the socket's path has %d bytes, more than the kernel takes", n)
	}
}

func TestConfigRoundTrip(t *testing.T) {
	name := filepath.Join(t.TempDir(), "config.json")
	want := config{Name: "x", Nodes: []string{"a", "b"}, CPUs: 1, Image: "h", Dir: "/c", Run: "/r", Disks: "/d", Acceleration: Acceleration{"tcg", "why"}}
	if err := writeJSON(name, want); err != nil {
		t.Fatal(err)
	}
	var got config
	if err := readJSON(name, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseStat(t *testing.T) {
	stat := "42 (a) b) (c) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3"
	start, state, err := parseStat(stat)
	if start != 987654 || state != "S" || err != nil {
		t.Errorf("start %d, state %q, %v", start, state, err)
	}
	if _, _, err := parseStat("42 (x) S 1"); err == nil {
		t.Error("a short line was taken")
	}
}

func TestKillSparesAnotherProcess(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	reaped := make(chan error, 1)
	go func() { reaped <- cmd.Wait() }()
	p, err := findProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	other := process{p.PID, p.Start + 1} // the same number, begun at another time
	if err := other.killAndWait(unix.SIGKILL, time.Second); err != nil || !p.isAlive() {
		t.Fatalf("a process that is not ours was killed: %v", err)
	}
	if err := p.killAndWait(unix.SIGKILL, time.Minute); err != nil || p.isAlive() {
		t.Fatalf("our process was not killed: %v", err)
	}
	<-reaped
}

func TestLockFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(context.Background(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	waited := false
	if _, err := lockFile(ctx, name, func() { waited = true }); !errors.Is(err, context.DeadlineExceeded) || !waited {
		t.Errorf("a held lock: %v, waited %v", err, waited)
	}
	unlock()
	if unlock, err = lockFile(context.Background(), name, nil); err != nil {
		t.Fatal(err)
	}
	unlock()
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock is left: %v", err)
	}
	var holders, took atomic.Int32
	var all errgroup.Group
	for range 8 {
		all.Go(func() error {
			for range 5 {
				unlock, err := lockFile(t.Context(), name, nil)
				if err != nil {
					return err
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d have the lock", n)
				}
				runtime.Gosched()
				holders.Add(-1)
				took.Add(1)
				unlock()
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil || took.Load() != 40 {
		t.Errorf("%v, taken %d times", err, took.Load())
	}
}

func TestClearOfNothing(t *testing.T) {
	dir := t.TempDir()
	p := paths{run: filepath.Join(dir, "run", "x"), disks: filepath.Join(dir, "disks")}
	if err := p.endLab(); err != nil {
		t.Error(err)
	}
}

func TestClearAfterDeadSupervisor(t *testing.T) {
	dir := t.TempDir()
	p := paths{run: filepath.Join(dir, "run", "x"), disks: filepath.Join(dir, "disks")}
	for _, d := range []string{p.run, p.disks} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := findProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	self.Start++ // this process has the number that the supervisor had
	if err := writeJSON(p.ownerPath(), self); err != nil {
		t.Fatal(err)
	}
	if err := p.endLab(); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{p.run, p.disks, filepath.Dir(p.run)} {
		if _, err := os.Stat(d); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", d, err)
		}
	}
}
