package lab

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// A command whose two outputs go to one buffer loses none of it. Under the race detector, and
// mostly without it, the test fails if the outputs are written at the same time.
func TestOneWriterGetsBothOutputs(t *testing.T) {
	l := &Lab{name: "both", clients: map[string]*ssh.Client{"worker01": muxed(t)}}
	long := strings.Repeat("a", 1<<17)
	for range 8 {
		var said bytes.Buffer
		exit, err := l.Exec(t.Context(), "worker01", Cmd{Argv: []string{long}, Stdin: strings.NewReader(long), Stdout: &said, Stderr: &said})
		if err != nil || exit != 7 {
			t.Fatalf("exit status %d, %v", exit, err)
		}
		if small, capital := strings.Count(said.String(), "a"), strings.Count(said.String(), "A"); small != len(long) || capital != len(long) {
			t.Errorf("%d bytes of standard error and %d of standard output, want %d of each", small, capital, len(long))
		}
	}
}

type notComparable []byte

func (notComparable) Write(p []byte) (int, error) { return len(p), nil }

func TestLockShared(t *testing.T) {
	var one, two bytes.Buffer
	if out, errs := lockShared(&one, &two); out != &one || errs != &two {
		t.Error("two writers are locked")
	}
	if out, errs := lockShared(nil, nil); out != nil || errs != nil {
		t.Error("dropped outputs are not")
	}
	if out, _ := lockShared(notComparable{}, notComparable{}); out == nil {
		t.Error("the writer is gone")
	}
}
