package kernel

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// readBound is how long one read of the kernel may take. A read of sriov_numvfs waits while the
// driver makes VFs, also if the driver hangs (kernel commit 35ff867b7657, "PCI/IOV: Serialize
// sysfs sriov_numvfs reads vs writes"); a netlink request waits for the RTNL lock, which a
// hanging driver may hold.
const readBound = 5 * time.Second

// hangs counts the reads of each object that have not returned in time. While there is one,
// further reads of that object fail at once, since each would block another thread. The zero
// value is ready.
type hangs struct {
	mu sync.Mutex // guards of
	of map[string]int
}

// readBounded reads an object within readBound. A read that hangs delays no read of
// another object (I7).
func readBounded[T any](ctx context.Context, h *hangs, object string, read func() (T, error)) (T, error) {
	if h.hasHung(object) {
		var none T
		return none, fmt.Errorf("%w: reading %s has not come back; dmesg may say where it hangs", vf.ErrTimeout, object)
	}
	ctx, cancel := context.WithTimeout(ctx, readBound)
	defer cancel()
	back, gaveUp := false, false // guarded by h.mu
	out, err := callBounded(ctx, func() (T, error) {
		out, err := read()
		h.mu.Lock()
		defer h.mu.Unlock()
		back = true
		if gaveUp {
			h.of[object]--
		}
		return out, err
	})
	if err != nil && ctx.Err() != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !back {
			gaveUp = true
			if h.of == nil {
				h.of = map[string]int{}
			}
			h.of[object]++
		}
	}
	return out, err
}

// calls are the steps whose calls into the kernel have not come back. The zero value is ready.
type calls struct {
	mu    sync.Mutex // guards begun and the calls in it
	begun map[*call]struct{}
}

type call struct {
	step   step.Step
	gaveUp bool // Do has returned
}

func (c *calls) beginCall(s step.Step) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun == nil {
		c.begun = map[*call]struct{}{}
	}
	begun := &call{step: s}
	c.begun[begun] = struct{}{}
	return begun
}

func (c *calls) endCall(begun *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.begun, begun)
}

func (c *calls) giveUp(begun *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	begun.gaveUp = true
}

// Hung returns the steps that Do gave up and whose calls have not come back, sorted by their text.
// Each may yet take effect. A process that is killed keeps its files, and so the lock of the ledger,
// until its calls come back.
func (k *Kernel) Hung() (hung []step.Step) {
	k.calls.mu.Lock()
	defer k.calls.mu.Unlock()
	for c := range k.calls.begun {
		if c.gaveUp {
			hung = append(hung, c.step)
		}
	}
	slices.SortFunc(hung, func(a, b step.Step) int { return strings.Compare(a.String(), b.String()) })
	return hung
}

func (h *hangs) hasHung(object string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of[object] > 0
}
