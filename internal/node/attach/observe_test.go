package attach_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/vf"
)

// The engine reports each attach and detach with its outcome to Observe, even if it is refused.
func TestDurationsAreObserved(t *testing.T) {
	_, n := newNode(t)
	var seen []string
	n.VFs.Observe = func(operation string, took time.Duration, err error) {
		if took < 0 {
			t.Errorf("%s took %s", operation, took)
		}
		if err != nil {
			operation += " failed"
		}
		seen = append(seen, operation)
	}
	rec, err := n.Engine.Attach(t.Context(), everything(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Engine.Attach(t.Context(), attach.Request{Owner: rec.Lease.Owner, VF: vf.PCIAddr{Bus: 99}}); err == nil || errors.Is(err, t.Context().Err()) {
		t.Errorf("got %v", err)
	}
	if err := n.Resets.Detach(t.Context(), rec.Lease.Owner); err != nil {
		t.Fatal(err)
	}
	if want := []string{"attach", "attach failed", "detach"}; !slices.Equal(seen, want) {
		t.Errorf("observed %q, want %q", seen, want)
	}
}
