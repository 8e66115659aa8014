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
	"time"

	"github.com/culvert-net/culvert/change"
	"github.com/culvert-net/culvert/vf"
)

// kernel is the part of kernel.Kernel that inventory needs.
type kernel interface {
	PFs(context.Context) ([]vf.PF, error)
	Probe(ctx context.Context, pf vf.PCIAddr, index int) (vf.Abilities, error)
}

// Inventory caches the listing. Its methods may be called concurrently.
type Inventory struct {
	kernel  kernel
	changed change.Signal

	mu        sync.Mutex // guards all below
	pfs       []vf.PF
	listed    time.Time // when the last listing that ended was begun
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

// Listed is when the last listing was begun; zero before the first. What PFs says
// was true then or later.
func (i *Inventory) Listed() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.listed
}

// Changed returns a channel that is closed when the next listing is there. Ask
// for it before reading, or a listing in between is missed.
func (i *Inventory) Changed() <-chan struct{} { return i.changed.Next() }

// Refresh lists the hardware again. A PF that could not be read whole is in
// the list with its Err; an error means that nothing could be listed, and the
// last listing stays.
func (i *Inventory) Refresh(ctx context.Context) ([]vf.PF, error) {
	begun := time.Now()
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
	if begun.Before(i.listed) {
		return pfs, nil // somebody who began later was faster
	}
	i.pfs, i.listed = pfs, begun
	i.changed.Notify()
	return slices.Clone(pfs), nil
}

// Follow lists the hardware within the given time after each wake of a kernel's
// Watch, unless somebody else did meanwhile. It is for those who show the
// hardware to others and must not wait for reconcile, which lets a burst of
// events end and may work for seconds on what it finds. It returns when the
// watch or ctx ends.
func (i *Inventory) Follow(ctx context.Context, wake <-chan struct{}, within time.Duration, failed func(error)) {
	for {
		last, more := burst(ctx, wake, within)
		if !more {
			return
		}
		if i.Listed().After(last) {
			continue
		}
		if _, err := i.Refresh(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
	}
}

// burst waits for a wake and the others that come within a time of it. It
// returns when the last one came; more is false when there will be none.
func burst(ctx context.Context, wake <-chan struct{}, within time.Duration) (last time.Time, more bool) {
	var due <-chan time.Time
	for {
		select {
		case _, more := <-wake:
			if !more {
				return last, false
			}
			last = time.Now()
			if due == nil {
				due = time.After(within)
			}
		case <-due:
			return last, true
		case <-ctx.Done():
			return last, false
		}
	}
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
