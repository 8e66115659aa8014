package kernel

import (
	"errors"
	"os"
	"testing"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// P12: the kernel has the file of a function that can be reset, and no other.
func TestP12Reset(t *testing.T) {
	sys := treeOf(t, "host.txtar")
	k := New(Options{SysRoot: sys.root})
	addr := pciAddr(t, "01:10.2")
	if err := k.Do(t.Context(), step.Reset{VF: addr}); !errors.Is(err, vf.ErrUnable) {
		t.Errorf("a function without a reset: %v", err)
	}
	if err := k.Do(t.Context(), step.Reset{VF: pciAddr(t, "ee:10.2")}); !errors.Is(err, vf.ErrNotFound) {
		t.Errorf("no function at all: %v", err)
	}
	path := sys.pciPath(addr, "reset")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := k.Do(t.Context(), step.Reset{VF: addr}); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "1" {
		t.Errorf("%q was written, %v", got, err)
	}
}
