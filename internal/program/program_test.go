package program

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "caller" {
		if err := Exec(Lab, os.Args[1:]); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(4)
		}
	}
	os.Exit(m.Run())
}

// script writes a program that prints its folder, an environment variable, its process
// and arguments and its input, and ends with status 3.
func script(t *testing.T, dir string, mode os.FileMode) {
	t.Helper()
	text := "#!/bin/sh\necho \"$(basename " + dir + "): $MARK $$: $*\"; cat; exit 3\n"
	if err := os.WriteFile(filepath.Join(dir, Lab), []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// The program beside the caller runs in the caller's process, with its arguments,
// environment and input, and its exit status is the caller's. Without it the one in PATH runs.
func TestExec(t *testing.T) {
	top := t.TempDir()
	own, other := filepath.Join(top, "own"), filepath.Join(top, "other")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	caller := filepath.Join(own, "caller")
	if err := errors.Join(os.Mkdir(own, 0o700), os.Mkdir(other, 0o700), os.WriteFile(caller, self, 0o700)); err != nil {
		t.Fatal(err)
	}
	call := func() (out string, status int) {
		cmd := exec.CommandContext(t.Context(), caller, "up", "a b", "--help")
		cmd.Env = []string{"PATH=" + other + ":/usr/bin:/bin", "MARK=marked"}
		cmd.Stdin = strings.NewReader("input")
		said, _ := cmd.CombinedOutput()
		if status = cmd.ProcessState.ExitCode(); status == 3 && !strings.Contains(string(said), fmt.Sprintf(" %d: ", cmd.ProcessState.Pid())) {
			t.Errorf("process %d runs it in another one: %s", cmd.ProcessState.Pid(), said)
		}
		return string(said), status
	}
	out, status := call()
	for _, want := range []string{"program culvert-lab", "not beside " + caller, "make build", "Debian package culvert-lab"} {
		if status != 4 || !strings.Contains(out, want) {
			t.Errorf("without it: status %d, %q is not in %q", status, want, out)
		}
	}
	script(t, other, 0o700)
	script(t, own, 0o600) // not to be executed
	for _, want := range []string{"other", "own"} {
		out, status := call()
		if status != 3 || !strings.HasPrefix(out, want+": marked ") || !strings.HasSuffix(out, ": up a b --help\ninput") {
			t.Errorf("%s: status %d: %q", want, status, out)
		}
		if err := os.Chmod(filepath.Join(own, Lab), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFindMatchesErrNotFound(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Find("culvert-none"); !errors.Is(err, exec.ErrNotFound) {
		t.Error(err)
	}
}
