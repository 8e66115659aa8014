package kernel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/culvert-net/culvert/vf"
)

// readBound is how long reading one PF may take. Reading sriov_numvfs waits for
// whoever writes it, a driver that makes its VFs or hangs doing so (kernel commit
// 35ff867b7657, "PCI/IOV: Serialize sysfs sriov_numvfs reads vs writes").
const readBound = 5 * time.Second

// hangs counts the reads of each PF that did not come back in time. While there
// is one, nobody else is sent after it: each would cost a thread. The zero value
// is ready.
type hangs struct {
	mu sync.Mutex // guards of
	of map[vf.PCIAddr]int
}

// read is read within its bound; another PF's hanging is not felt (I7).
func (h *hangs) read(ctx context.Context, pf vf.PCIAddr, read func() (vf.PF, error)) (vf.PF, error) {
	if h.any(pf) {
		return vf.PF{PCI: pf}, fmt.Errorf("%w: reading it has hung for more than %s; dmesg may say where", vf.ErrTimeout, readBound)
	}
	ctx, cancel := context.WithTimeout(ctx, readBound)
	defer cancel()
	back, gaveUp := false, false // guarded by h.mu
	out, err := bounded(ctx, func() (vf.PF, error) {
		out, err := read()
		h.mu.Lock()
		defer h.mu.Unlock()
		back = true
		if gaveUp {
			h.of[pf]--
		}
		return out, err
	})
	if errors.Is(err, vf.ErrTimeout) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !back {
			gaveUp = true
			if h.of == nil {
				h.of = map[vf.PCIAddr]int{}
			}
			h.of[pf]++
		}
	}
	return out, err
}

func (h *hangs) any(pf vf.PCIAddr) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of[pf] > 0
}
