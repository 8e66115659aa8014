package kernel

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/vf"
)

// facts are the properties of a VF that never change: its PF and index, and its device.
type facts struct {
	pf    vf.PCIAddr
	index int
	function
}

// allFacts caches the facts of VFs: an attach reads its VF twice, and two thirds of the files
// that it reads never change. If a VF is removed and another one gets its address, that one has a
// new folder in sysfs, with an inode number that no other folder had since the boot
// (kernfs_node.id).
type allFacts struct {
	mu sync.Mutex // guards of
	of map[vf.PCIAddr]remembered
}

type remembered struct {
	inode uint64
	facts
}

// sysfsMagic is SYSFS_MAGIC (linux/magic.h). Other file systems, which tests use, reuse inode
// numbers.
const sysfsMagic = 0x62656572

// readFacts returns the facts of a VF, with its present driver. Its errors are those of findPF
// and readFunction.
func (k *Kernel) readFacts(addr vf.PCIAddr) (facts, error) {
	inode, ok := k.sys.inodeOf(addr)
	if ok {
		if f, ok := k.known.recallFacts(addr, inode); ok {
			var err error
			f.Driver, err = linkTarget(k.sys.pciPath(addr, "driver"))
			return f, err
		}
	}
	pf, index, err := k.sys.findPF(addr)
	if err != nil {
		return facts{}, err
	}
	f, err := k.sys.readFunction(addr)
	if err != nil {
		return facts{}, err
	}
	all := facts{pf, index, f}
	if ok {
		k.known.keepFacts(addr, remembered{inode, all})
	}
	return all, nil
}

// inodeOf returns the inode of a PCI function's folder in sysfs.
func (t tree) inodeOf(addr vf.PCIAddr) (uint64, bool) {
	var fs unix.Statfs_t
	if err := unix.Statfs(t.pciPath(addr), &fs); err != nil || fs.Type != sysfsMagic {
		return 0, false
	}
	var st unix.Stat_t
	if err := unix.Stat(t.pciPath(addr), &st); err != nil {
		return 0, false
	}
	return st.Ino, true
}

func (a *allFacts) recallFacts(addr vf.PCIAddr, inode uint64) (facts, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, ok := a.of[addr]
	return r.facts, ok && r.inode == inode
}

func (a *allFacts) keepFacts(addr vf.PCIAddr, r remembered) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[vf.PCIAddr]remembered{}
	}
	a.of[addr] = r
}
