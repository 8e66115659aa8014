package evidence

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

// VF is a VF of the machine, with the MAC address that its PF holds for it. A guest that has the VF
// sees this address and does not see the PF.
type VF struct {
	MAC   string `json:"mac"`
	PF    string `json:"pf"`
	PFPCI string `json:"pfPCI"` // a container that does not see the PF has this in place of its name
	Index int    `json:"index"`
	PCI   string `json:"pci"`
}

// VFs lists the VFs that have a MAC address, of all PFs in this network namespace. A PF that does
// not answer does not hide the VFs of others.
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
			continue // the result has no PF's name for a guest's VF that is not found
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
