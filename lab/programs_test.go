package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPrograms: a program runs once, is told of when it ends by itself, can be
// started again by its name, and is gone when it was ended.
func TestPrograms(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	var p programs
	t.Cleanup(func() {
		if err := p.endAll(); err != nil {
			t.Error(err)
		}
	})
	script := Program{Name: "one", Argv: []string{"sh", "-c", `echo "up $WORD"; [ ! -e "$0" ] || exit 3; exec sleep 1000`, log + ".end"}, Env: []string{"WORD=x"}}
	if err := p.run(script, log); err != nil {
		t.Fatal(err)
	}
	pid := p.status()[0].PID
	if pid == 0 {
		t.Fatalf("it does not run: %+v", p.status())
	}
	if err := p.run(script, log); err == nil || !strings.Contains(err.Error(), "runs already") {
		t.Errorf("a second one of the name: %v", err)
	}
	waitForLog(t, log, "up x\n")
	if err := p.end("one"); err != nil {
		t.Fatal(err)
	}
	if seen := p.status()[0]; seen.PID != 0 || seen.Ended != "" {
		t.Errorf("after its end: %+v", seen)
	}
	if _, err := findProcess(pid); err == nil {
		t.Error("its process is there still")
	}

	if err := os.WriteFile(log+".end", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.run(Program{Name: "one"}, log); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); p.status()[0].Ended == "" && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
	}
	if seen := p.status()[0]; seen.PID != 0 || seen.Ended != "exit status 3" {
		t.Errorf("after it ended by itself: %+v", seen)
	}
	if body, _ := os.ReadFile(log); string(body) != "up x\nup x\n" {
		t.Errorf("its log is %q", body)
	}

	for _, bad := range []Program{{Name: "two"}, {Name: "A/b", Argv: []string{"true"}}, {Name: "three", Argv: []string{"/nonexistent"}}} {
		if err := p.run(bad, log); err == nil {
			t.Errorf("%+v runs", bad)
		}
	}
	if err := p.end("two"); err == nil || !strings.Contains(err.Error(), "there are one") {
		t.Errorf("the end of one that is not there: %v", err)
	}
}

// waitForLog waits until a program, which starts in its own time, has written.
func waitForLog(t *testing.T, log, want string) {
	t.Helper()
	var body []byte
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if body, _ = os.ReadFile(log); string(body) == want {
			return
		}
	}
	t.Fatalf("its log is %q after 10 s, not %q", body, want)
}

func TestWritePrograms(t *testing.T) {
	var b strings.Builder
	if err := writePrograms(&b, []Program{{Name: "etcd", PID: 12}, {Name: "kube-apiserver", Ended: "exit status 1"}, {Name: "x"}}); err != nil {
		t.Fatal(err)
	}
	if want := "\nbeside them  etcd 12, kube-apiserver (off) exit status 1, x (off)\n"; b.String() != want {
		t.Errorf("%q", b.String())
	}
}
