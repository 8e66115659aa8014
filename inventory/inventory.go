// Package inventory is what the host's NICs looked like when they were last
// listed. reconcile refreshes it after every event and change; attach, alloc
// and status read it without touching the kernel.
package inventory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/culvert-net/culvert/vf"
)

// kernel is the part of kernel.Kernel that inventory needs.
type kernel interface {
	PFs(context.Context) ([]vf.PF, error)
	Probe(ctx context.Context, pf vf.PCIAddr, index int) (vf.Abilities, error)
}

// Inventory caches the listing. Its methods may be called concurrently.
type Inventory struct {
	kernel kernel

	mu        sync.Mutex // guards all below
	pfs       []vf.PF
	abilities map[vf.PFID]vf.Abilities
}

// New returns an empty inventory; Refresh fills it.
func New(k kernel) *Inventory {
	return &Inventory{kernel: k, abilities: map[vf.PFID]vf.Abilities{}}
}

// PFs returns the last listing, with what is known of each PF's abilities.
// The caller must not change it.
func (i *Inventory) PFs() []vf.PF {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.pfs)
}

// Refresh lists the hardware again. A PF that could not be read whole is in
// the list with its Err; an error means that nothing could be listed, and the
// last listing stays.
func (i *Inventory) Refresh(ctx context.Context) ([]vf.PF, error) {
	pfs, err := i.kernel.PFs(ctx)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for n := range pfs {
		i.recognise(&pfs[n])
		pfs[n].Abilities = i.known(pfs[n])
	}
	i.pfs = pfs
	return slices.Clone(pfs), nil
}

// recognise gives a PF that could not be read the identity that the PF in its
// place had: what is held of it must not look as if it were gone.
func (i *Inventory) recognise(pf *vf.PF) {
	if pf.Err == "" || !pf.ID.IsZero() {
		return
	}
	for _, old := range i.pfs {
		if old.PCI == pf.PCI && !old.ID.IsZero() {
			pf.ID, pf.Name = old.ID, cmp.Or(pf.Name, old.Name)
		}
	}
}

// known joins what reading a PF told with what probing it told.
func (i *Inventory) known(pf vf.PF) vf.Abilities {
	all := maps.Clone(pf.Abilities)
	if all == nil {
		all = vf.Abilities{}
	}
	for s, t := range i.abilities[pf.ID] {
		if t != vf.Unknown {
			all[s] = t
		}
	}
	return all
}

// Probed reports whether the PF has been asked what it can do.
func (i *Inventory) Probed(id vf.PFID) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.abilities[id] != nil
}

// Probe asks the driver what it can do, by writing to one VF what that has
// already. The VF must be free, and nobody may work on it meanwhile.
func (i *Inventory) Probe(ctx context.Context, pf vf.PF, index int) error {
	a, err := i.kernel.Probe(ctx, pf.PCI, index)
	if err != nil {
		return err
	}
	if a == nil {
		a = vf.Abilities{}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.abilities[pf.ID] = a
	for n := range i.pfs {
		if i.pfs[n].ID == pf.ID {
			i.pfs[n].Abilities = i.known(i.pfs[n])
		}
	}
	return nil
}
