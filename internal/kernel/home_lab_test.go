package kernel_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/kernel"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/kernel/uevent"
)

// I2: a netdevice returns to the host with its name, so that udev, which sees it as a
// new one, renames nothing. Culvert does not wait for a udev that hangs.
func TestLabI2HomeUnderItsName(t *testing.T) {
	n := labNode(t)
	run := t.TempDir()
	if err := os.MkdirAll(filepath.Join(run, "udev"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(run, "udev/control"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	v := n.bound(0, 0)
	pod := n.netns("home")
	n.do(step.Move{VF: v.PCI, To: pod, Name: "net1"})

	events, err := uevent.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	k := kernel.New(kernel.Options{RunRoot: run, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := k.Do(ctx, step.Move{VF: v.PCI, From: pod, Name: v.Link.Name}); err != nil {
		t.Fatal(err)
	}
	if got := n.vf(0, 0, ""); got.Link == nil || got.Link.Name != v.Link.Name {
		t.Errorf("it is %+v, want %s", got.Link, v.Link.Name)
	}
	for _, e := range drain(t, events) {
		if e.Subsystem == "net" && (e.Action == "move" || e.Interface != v.Link.Name) {
			t.Errorf("udev is told: %s %s", e.Action, e.Interface)
		}
	}
}

// drain returns the events that have arrived.
func drain(t *testing.T, c *uevent.Conn) (all []uevent.Event) {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		e, err := c.Next(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
}
