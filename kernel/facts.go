package kernel

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/vf"
)

// facts are what a VF is for as long as it exists: whose VF, and which device.
type facts struct {
	pf    vf.PCIAddr
	index int
	function
}

// allFacts remembers the facts of VFs: an attach reads its VF twice, and two
// thirds of the files of a reading hold what cannot change. A VF that went and
// came back, as another one perhaps, has a folder of its own in sysfs, with an
// inode number that no other folder of this boot had (kernfs_node.id).
type allFacts struct {
	mu sync.Mutex // guards of
	of map[vf.PCIAddr]remembered
}

type remembered struct {
	inode uint64
	facts
}

// sysfsMagic is SYSFS_MAGIC (linux/magic.h). Other file systems, those of
// tests, use inode numbers again.
const sysfsMagic = 0x62656572

// facts says what a VF is; its driver is the one of now. The errors are those
// of physfn and function.
func (k *Kernel) facts(addr vf.PCIAddr) (facts, error) {
	inode, ok := k.sys.inode(addr)
	if ok {
		if f, ok := k.known.get(addr, inode); ok {
			var err error
			f.Driver, err = target(k.sys.pci(addr, "driver"))
			return f, err
		}
	}
	pf, index, err := k.sys.physfn(addr)
	if err != nil {
		return facts{}, err
	}
	f, err := k.sys.function(addr)
	if err != nil {
		return facts{}, err
	}
	all := facts{pf, index, f}
	if ok {
		k.known.put(addr, remembered{inode, all})
	}
	return all, nil
}

// inode is that of a PCI function's folder in sysfs.
func (t tree) inode(addr vf.PCIAddr) (uint64, bool) {
	var fs unix.Statfs_t
	if err := unix.Statfs(t.pci(addr), &fs); err != nil || fs.Type != sysfsMagic {
		return 0, false
	}
	var st unix.Stat_t
	if err := unix.Stat(t.pci(addr), &st); err != nil {
		return 0, false
	}
	return st.Ino, true
}

func (a *allFacts) get(addr vf.PCIAddr, inode uint64) (facts, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, ok := a.of[addr]
	return r.facts, ok && r.inode == inode
}

func (a *allFacts) put(addr vf.PCIAddr, r remembered) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[vf.PCIAddr]remembered{}
	}
	a.of[addr] = r
}
