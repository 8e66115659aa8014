package place

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/program"
)

// labVariable names the folder of the fake lab, whose files are those of its node.
const labVariable = "CULVERT_TEST_LAB"

// fakeLab is a culvert-lab whose one lab is "x" with the node n1, which is this host.
// It logs each call.
func fakeLab(args []string) {
	dir := os.Getenv(labVariable)
	log, err := os.OpenFile(filepath.Join(dir, "called"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(log, strings.Join(args, " "))
	log.Close()
	switch {
	case args[0] == "ends" && args[2] == "8":
		fmt.Println(`{"error": "8 senders: take 1 to 7"}`)
	case args[0] == "ends" && args[2] == "7": // boots until it is stopped
		_, _ = io.Copy(io.Discard, os.Stdin)
	case args[0] == "ends":
		fmt.Println(`{"from": ["lab:x/n1"], "to": ["lab:x/n1,netns=a"], "management": "mgmt0"}`)
		_, _ = io.Copy(io.Discard, os.Stdin)
		if err := os.WriteFile(filepath.Join(dir, "down"), nil, 0o600); err != nil {
			panic(err)
		}
	case args[1] != "--name" || args[2] != "x":
		fmt.Fprintln(os.Stderr, "culvert lab: open the lab: the lab is not up (culvert lab up brings it up)")
		os.Exit(1)
	case args[0] == "status":
		fmt.Println(`{"name": "x", "nodes": [{"name": "n1", "state": "ready"}]}`)
	case args[0] == "exec" && args[3] == "n1" && args[4] == "--":
		cmd := exec.Command(args[5], args[6:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		_ = cmd.Run()
		os.Exit(cmd.ProcessState.ExitCode())
	case args[0] == "cp":
		dest := strings.TrimPrefix(args[4], "n1:")
		body, err := os.ReadFile(args[3])
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(dest), 0o700), os.WriteFile(dest, body, 0o700)); err != nil {
			panic(err)
		}
	case args[0] == "link" && args[4] == "pf9":
		fmt.Fprintln(os.Stderr, "culvert lab: there is no PF pf9")
		os.Exit(1)
	}
	os.Exit(0)
}

// withLab puts the fake culvert-lab into PATH. called returns the calls from its log.
func withLab(t *testing.T) (dir string, called func() []string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.Symlink(ownProgram(t).Path, filepath.Join(dir, program.Lab)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv(labVariable, dir)
	return dir, func() []string {
		text, err := os.ReadFile(filepath.Join(dir, "called"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
}

// A node of a lab gets culvert-bench by culvert-lab, which also runs it there; the agent has both
// directions of the pipe and ends it, and nothing is left.
func TestOpenInALab(t *testing.T) {
	_, called := withLab(t)
	p, err := Open(t.Context(), Spec{Kind: Lab, Machine: "x/n1"}, ownProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	_, dir, _ := checkHello(t, p)
	if !strings.HasPrefix(dir, "/run/culvert-bench-") {
		t.Errorf("the agent was started in %s", dir)
	}
	if err := p.Close(); err != nil || p.Said() != "an agent was here" {
		t.Errorf("%v, %q", err, p.Said())
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %s, %v", dir, err)
	}
	want := []string{"status --name x --output json", "exec --name x n1 -- sh -c echo", "cp --name x " + ownProgram(t).Path + " n1:" + dir + "/culvert-bench", "exec --name x n1 -- sh -c trap"}
	for i, line := range called() {
		if i < len(want) && !strings.HasPrefix(line, want[i]) {
			t.Errorf("culvert-lab %s; want %s", line, want[i])
		}
	}
}

func TestOpenInALabSaysWhatIsWrong(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // this machine may have a culvert-lab of its own
	if _, err := Open(t.Context(), Spec{Kind: Lab, Machine: "x/n1"}, ownProgram(t)); err == nil || !strings.Contains(err.Error(), "Debian package culvert-lab") {
		t.Errorf("without culvert-lab: %v", err)
	}
	withLab(t)
	for machine, want := range map[string]string{
		"no-such-lab/worker01": "culvert lab up",
		"x/n2":                 "lab x has no node n2: it has n1",
	} {
		if _, err := Open(t.Context(), Spec{Kind: Lab, Machine: machine}, ownProgram(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q in it", machine, err, want)
		}
	}
}

func TestPullACable(t *testing.T) {
	_, called := withLab(t)
	pull := LabCable([]Spec{{Kind: Lab, Machine: "x/n1"}})
	if err := errors.Join(pull(t.Context(), "n1", "enp1s0", false), pull(t.Context(), "n1", "enp1s0", true)); err != nil {
		t.Error(err)
	}
	if err := pull(t.Context(), "n1", "pf9", true); err == nil || !strings.Contains(err.Error(), "there is no PF pf9") {
		t.Error(err)
	}
	got := strings.Join(called(), "\n")
	for _, want := range []string{"link --name x n1 enp1s0 down", "link --name x n1 enp1s0 up"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
}

// A booted lab goes down on request, and an interrupted boot ends.
func TestBootLab(t *testing.T) {
	dir, _ := withLab(t)
	b, err := BootLab(t.Context(), 1, false)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(b.LabEnds)
	if want := `{"from":["lab:x/n1"],"to":["lab:x/n1,netns=a"],"management":"mgmt0"}`; err != nil || string(got) != want {
		t.Errorf("%v: %s", err, got)
	}
	down := filepath.Join(dir, "down")
	if _, err := os.Stat(down); err == nil {
		t.Error("it is down before it is told to go")
	}
	if err := b.Down(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(down); err != nil {
		t.Errorf("it is not down: %v", err)
	}
	if _, err := BootLab(t.Context(), 8, false); err == nil || !strings.Contains(err.Error(), "take 1 to 7") {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := BootLab(ctx, 7, false); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
