package text

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/screen"
)

// A row of culvert vf watch that changed a short time ago begins with a mark, also where there are no
// colours. An older change has no mark, and stays below the list while it is one of the last.
func TestWatchedRowsAreMarked(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	vfs := []api.VF{{Name: "enp1s0#0", Phase: "free"}, {Name: "enp1s0#1", Phase: "attached"}, {Name: "enp1s0#2", Phase: "free"}, {Name: "enp1s0#3", Phase: "free"}}
	change := func(ago time.Duration, op, name string) api.VFChange {
		return api.VFChange{Time: now.Add(-ago), Op: op, VF: name, Changes: []api.Change{{Op: api.Modify, Attribute: "phase", From: "free", To: "attached"}}}
	}
	changes := []api.VFChange{
		change(time.Minute, api.Modify, "enp1s0#0"), change(2*time.Second, api.Modify, "enp1s0#1"), change(2*time.Second, api.Add, "enp1s0#2"),
		change(time.Second, api.Modify, "enp1s0#2"), change(time.Second, api.Remove, "enp1s0#4"),
	}
	got := Watched(vfs, changes, now, time.Second, Options{Look: screen.Look{Width: 100}})
	for _, row := range []string{"\n  VF        ", "\n  enp1s0#0  ", "\n~ enp1s0#1  ", "\n+ enp1s0#2  ", "\n  enp1s0#3  ", "\n2026-11-21 11:59:00 ~ enp1s0#0 phase free -> attached\n", " - enp1s0#4"} {
		if !strings.Contains(got, row) {
			t.Errorf("%q is not in:\n%s", row, got)
		}
	}
	if got := Watched(vfs, changes, now, time.Second, Options{Look: screen.Look{Width: 100, Color: true}}); !strings.Contains(got, "\n\x1b[33m~ enp1s0#1\x1b[0m") || !strings.Contains(got, "\n\x1b[32m+ enp1s0#2\x1b[0m") {
		t.Errorf("no colours:\n%q", got)
	}
	if got := Watched(vfs, changes, now.Add(9*time.Second), time.Second, Options{}); strings.Contains(got, "\n~") || strings.Contains(got, "+ enp1s0#2  0000") {
		t.Errorf("marks stay:\n%s", got)
	}
}

// The screen of a cluster has the mark before the node, and a narrow one before the name.
func TestWatchedInCluster(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	vfs := []api.VF{{Node: "worker01", Name: "enp1s0#0", Phase: "free"}, {Node: "worker02", Name: "enp1s0#0", Phase: "free"}}
	changes := []api.VFChange{{Time: now, Op: api.Modify, Node: "worker02", VF: "enp1s0#0"}}
	got := Watched(vfs, changes, now, time.Second, Options{})
	if !strings.Contains(got, "\n  worker01  enp1s0#0  ") || !strings.Contains(got, "\n~ worker02  enp1s0#0  ") {
		t.Error(got)
	}
	if got := Watched(vfs, changes, now, time.Second, Options{Look: screen.Look{Width: 40}}); !strings.Contains(got, "\nworker01\n") || !strings.Contains(got, "\n~ worker02\n") {
		t.Error(got)
	}
}

// Changes that a row shows by its mark are kept, however many there are.
func TestOnScreen(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var all []api.VFChange
	for i := range 20 {
		all = append(all, api.VFChange{Time: now.Add(time.Duration(i-19) * time.Second), VF: fmt.Sprint(i)})
	}
	if got := OnScreen(all, now); len(got) != 10 || got[0].VF != "10" {
		t.Errorf("%d changes, from %v on", len(got), got[0])
	}
	if got := OnScreen(all, now.Add(time.Hour)); len(got) != 5 || got[0].VF != "15" {
		t.Errorf("%d changes, from %v on", len(got), got[0])
	}
}
