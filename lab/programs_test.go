package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/screen"
)

// TestPrograms: a program runs once at a time, and the list shows how it ended
// by itself. It can be started again by its name, and is gone after End.
func TestPrograms(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	var p programs
	t.Cleanup(func() {
		if err := p.endAll(); err != nil {
			t.Error(err)
		}
	})
	script := Program{Name: "one", Argv: []string{"sh", "-c", `echo "up $WORD"; [ ! -e "$0" ] || exit 3; exec sleep 1000`, log + ".end"}, Env: []string{"WORD=x"}}
	if err := p.runProgram(script, log); err != nil {
		t.Fatal(err)
	}
	pid := p.listPrograms()[0].PID
	if pid == 0 {
		t.Fatalf("it does not run: %+v", p.listPrograms())
	}
	if err := p.runProgram(script, log); err == nil || !strings.Contains(err.Error(), "runs already") {
		t.Errorf("a second one of the name: %v", err)
	}
	waitForLog(t, log, "up x\n")
	if err := p.endProgram("one"); err != nil {
		t.Fatal(err)
	}
	if seen := p.listPrograms()[0]; seen.PID != 0 || seen.Ended != "" {
		t.Errorf("after its end: %+v", seen)
	}
	if _, err := findProcess(pid); err == nil {
		t.Error("its process is there still")
	}

	if err := os.WriteFile(log+".end", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.runProgram(Program{Name: "one"}, log); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); p.listPrograms()[0].Ended == "" && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
	}
	if seen := p.listPrograms()[0]; seen.PID != 0 || seen.Ended != "exit status 3" {
		t.Errorf("after it ended by itself: %+v", seen)
	}
	if body, _ := os.ReadFile(log); string(body) != "up x\nup x\n" {
		t.Errorf("its log is %q", body)
	}

	for _, bad := range []Program{{Name: "two"}, {Name: "A/b", Argv: []string{"true"}}, {Name: "three", Argv: []string{"/nonexistent"}}} {
		if err := p.runProgram(bad, log); err == nil {
			t.Errorf("%+v runs", bad)
		}
	}
	if err := p.endProgram("two"); err == nil || !strings.Contains(err.Error(), "there are one") {
		t.Errorf("the end of one that is not there: %v", err)
	}
}

// readProcess reports a process as ended if it ends before its state is read.
func TestEndedProcess(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	stat, err := os.Open(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Error(err)
	}
	defer stat.Close()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if p, err := readProcess(pid, stat); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("it ended after its file was opened: %+v, %v", p, err)
	}
	if p, err := findProcess(pid); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("it has ended: %+v, %v", p, err)
	}
}

// waitForLog waits until a program, which starts in its own time, has written.
func waitForLog(t *testing.T, log, want string) {
	t.Helper()
	var body []byte
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if body, _ = os.ReadFile(log); string(body) == want {
			return
		}
	}
	t.Fatalf("its log is %q after a minute, not %q", body, want)
}

func TestDrawPrograms(t *testing.T) {
	got := drawPrograms([]Program{{Name: "etcd", PID: 12}, {Name: "kube-apiserver", Ended: "exit status 1"}, {Name: "x"}}, screen.Look{})
	if want := "\nbeside them  etcd 12, kube-apiserver (off) exit status 1, x (off)\n"; got != want {
		t.Errorf("%q", got)
	}
}
