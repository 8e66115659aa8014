package failure

import (
	"fmt"
	"sync"

	"github.com/culvert-net/culvert/internal/vf"
)

// reads has the reads of the kernel that hang: of PFs and VFs by their address, and of
// the open files of processes. Such a read fails at once, as it does in a kernel.Kernel
// after the first one. A hang outlives culvertd.
type reads struct {
	mu   sync.Mutex // guards hung
	hung map[vf.PCIAddr]bool
}

// openFiles stands for the open files of all processes, in place of an address.
var openFiles = vf.PCIAddr{}

// hang makes the reads of one more object hang.
func (r *reads) hang(object vf.PCIAddr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hung == nil {
		r.hung = map[vf.PCIAddr]bool{}
	}
	r.hung[object] = true
}

// comeBack makes all reads work again.
func (r *reads) comeBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hung = nil
}

// hangs returns the error of a read of an object, or nil if the read works.
func (r *reads) hangs(object vf.PCIAddr) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hung[object] {
		return fmt.Errorf("%w: reading %s has not come back", vf.ErrTimeout, object)
	}
	return nil
}

// listed returns a listing in which PFs that hang have only their address and an error.
func (r *reads) listed(pfs []vf.PF) []vf.PF {
	for i, pf := range pfs {
		if err := r.hangs(pf.PCI); err != nil {
			pfs[i] = vf.PF{PCI: pf.PCI, Err: err.Error()}
		}
	}
	return pfs
}
