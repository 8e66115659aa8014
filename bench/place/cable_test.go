package place

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A person's commands have the PF and the machine. The error of one has its output, and its bound ends
// all that it started.
func TestCableCommands(t *testing.T) {
	did := filepath.Join(t.TempDir(), "did")
	move := CableCommands(`echo "down $1 $2" >>`+did, `echo "up $1 $2" >>`+did)
	for _, in := range []bool{false, true} {
		if err := move(t.Context(), "vm1", "esxi01/vmnic2", in); err != nil {
			t.Error(err)
		}
	}
	if text, err := os.ReadFile(did); err != nil || string(text) != "down esxi01/vmnic2 vm1\nup esxi01/vmnic2 vm1\n" {
		t.Errorf("%q, %v", text, err)
	}
	if err := CableCommands("echo no such port >&2; exit 3", "true")(t.Context(), "vm1", "", false); err == nil || !strings.Contains(err.Error(), "exit status 3: no such port") {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := CableCommands("sleep 60 | cat", "true")(ctx, "vm1", "", false); err == nil || time.Since(began) > 30*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}

func TestLabCable(t *testing.T) {
	node := func(m string) Spec { return Spec{Kind: Lab, Machine: m} }
	for _, c := range []struct {
		specs []Spec
		want  bool
	}{
		{nil, false},
		{[]Spec{node("a/worker01"), node("a/worker02")}, true},
		{[]Spec{node("a/worker01"), node("b/worker01")}, false},
		{[]Spec{node("a/worker01"), {Kind: Host}}, false},
	} {
		if got := LabCable(c.specs) != nil; got != c.want {
			t.Errorf("%v: %v", c.specs, got)
		}
	}
	if err := LabCable([]Spec{node("no-such-lab/worker01")})(t.Context(), "worker01", "", true); err == nil {
		t.Error("the cable of nothing was pulled")
	}
}
