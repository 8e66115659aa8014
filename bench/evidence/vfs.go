package evidence

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/culvert-net/culvert/kernel/rtnl"
	"github.com/culvert-net/culvert/vf"
)

// VF is one of a machine's, by the address that its PF holds for it: a guest that has it
// sees that address and nothing of the PF.
type VF struct {
	MAC   string `json:"mac"`
	PF    string `json:"pf"`
	PFPCI string `json:"pfPCI"` // what a container that does not see the PF has for its name
	Index int    `json:"index"`
	PCI   string `json:"pci"`
}

// VFs lists those of the PFs in this network namespace that have an address. A PF that does not
// answer hides no other one's.
func (r Reader) VFs() (all []VF, err error) {
	conn, err := rtnl.Dial()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	links, err := conn.Links()
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		if len(r.listFiles(r.devicePath(l.Parent, "virtfn0"))) == 0 || l.Parent == "" {
			continue
		}
		pf, err := conn.Link(l.Index, true)
		if err != nil {
			continue // a guest's VF that is not found has no PF's name in the result
		}
		all = append(all, r.addressedVFs(l.Parent, pf)...)
	}
	return all, nil
}

// addressedVFs returns the VFs of a PF that have a MAC address, in order.
func (r Reader) addressedVFs(pci string, pf rtnl.Link) (all []VF) {
	for _, i := range slices.Sorted(maps.Keys(pf.VFs)) {
		target, err := filepath.EvalSymlinks(r.pathOf(r.devicePath(pci, fmt.Sprintf("virtfn%d", i))))
		if mac := pf.VFs[i].MAC; err == nil && mac != (vf.MAC{}) {
			all = append(all, VF{MAC: mac.String(), PF: pf.Name, PFPCI: pci, Index: i, PCI: filepath.Base(target)})
		}
	}
	return all
}
