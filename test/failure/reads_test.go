package failure

import (
	"fmt"
	"sync"

	"github.com/culvert-net/culvert/vf"
)

// reads are the reads of the kernel that hang: of PFs and VFs by their address, and of
// the open files of processes. They fail at once, as a kernel.Kernel has them fail after
// the first one. A hang outlives culvertd.
type reads struct {
	mu   sync.Mutex // guards hung
	hung map[vf.PCIAddr]bool
}

// openFiles is in place of an address: the open files of all processes.
var openFiles = vf.PCIAddr{}

// hang has the reads of one more object hang.
func (r *reads) hang(object vf.PCIAddr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hung == nil {
		r.hung = map[vf.PCIAddr]bool{}
	}
	r.hung[object] = true
}

// comeBack has all reads work again.
func (r *reads) comeBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hung = nil
}

// hangs is the error of a read of an object, nil for one that works.
func (r *reads) hangs(object vf.PCIAddr) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hung[object] {
		return fmt.Errorf("%w: reading %s has not come back", vf.ErrTimeout, object)
	}
	return nil
}

// listed is a listing in which PFs that hang have an error and nothing else.
func (r *reads) listed(pfs []vf.PF) []vf.PF {
	for i, pf := range pfs {
		if err := r.hangs(pf.PCI); err != nil {
			pfs[i] = vf.PF{PCI: pf.PCI, Err: err.Error()}
		}
	}
	return pfs
}
