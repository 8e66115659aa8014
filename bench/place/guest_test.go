package place

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Open reaches a guest by a command that gives a shell in it. It sends the program there, and the
// program's folder is removed at the end.
func TestOpenAGuest(t *testing.T) {
	for name, by := range map[string]string{
		"a shell": "sh", "one that greets": "echo hello; echo 'no newline:' | tr -d '\\n'; sh", "busybox's": "busybox sh",
	} {
		t.Run(name, func(t *testing.T) {
			tmp := t.TempDir()
			t.Setenv("TMPDIR", tmp)
			p, err := Open(t.Context(), Spec{Kind: Host, VM: "db1", By: by}, Program{Path: ownProgram(t).Path, Version: "unknown"})
			if err != nil {
				t.Fatal(err)
			}
			sentBelow(t, p, tmp)
		})
	}
}

// The command that leads to a guest may go on after the agent has ended: a virtio channel stays
// open.
func TestGuestThatStaysConnected(t *testing.T) {
	p, err := Open(t.Context(), Spec{Kind: Host, VM: "db1", By: "sh; cat >/dev/null"}, ownProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	checkHello(t, p)
	if _, err := fmt.Fprintln(p, "leave"); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(p); err != nil || string(rest) != "heard leave\n" {
		t.Errorf("%q, %v", rest, err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// A guest of another machine is reached from there.
func TestOpenAGuestBySSH(t *testing.T) {
	tmp := fakeSSH(t, map[string]string{"to-db1": "exec sh"})
	p, err := Open(t.Context(), Spec{Kind: SSH, Machine: "root@there", VM: "db1", By: "to-db1"}, ownProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	sentBelow(t, p, tmp)
}

func TestOpenAGuestSaysWhatIsWrong(t *testing.T) {
	t.Parallel() // it waits for the end of a program that does not leave
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, make([]byte, 65<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	for by, want := range map[string]string{
		"echo nobody there >&2; exit 255": "nobody there",
		"cat " + big + "; sleep 60":       "what answers is no shell",
	} {
		_, err := Open(t.Context(), Spec{Kind: Host, VM: "db1", By: by}, ownProgram(t))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "vm=db1") {
			t.Errorf("%s: %v; want %q in it", by, err, want)
		}
	}
}

// A shell that does not answer is left, and the next connection asked: the end of an earlier one may
// have taken the first lines. One that never answers is named.
func TestGuestThatSwallowsTheFirstLines(t *testing.T) {
	begun := filepath.Join(t.TempDir(), "begun")
	for by, want := range map[string]string{"mkdir " + begun + " 2>/dev/null && cat >/dev/null; exec sh": "", "cat >/dev/null; exit": "it does not answer within 300ms"} {
		m := guestMachine{hostMachine{}, by, 300 * time.Millisecond}
		p, err := m.startScript(t.Context(), "echo here")
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %q in it", by, err, want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if out, err := io.ReadAll(p); err != nil || string(out) != "here\n" {
			t.Errorf("%q, %v", out, err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}
