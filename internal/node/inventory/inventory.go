// Package inventory caches the last listing of the host's NICs. reconcile refreshes it after every
// event and change; attach, alloc and status read it without touching the kernel.
package inventory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/culvert-net/culvert/internal/change"
	"github.com/culvert-net/culvert/internal/vf"
)

// kernel is the part of kernel.Kernel that inventory needs.
type kernel interface {
	PFs(context.Context) ([]vf.PF, error)
	Probe(ctx context.Context, pf vf.PCIAddr, index int) (vf.Abilities, error)
}

// Inventory caches the listing. Its methods may be called concurrently.
type Inventory struct {
	kernel  kernel
	now     func() time.Time
	changed change.Signal

	mu        sync.Mutex // guards all below
	pfs       []vf.PF
	listed    time.Time // when the last listing that ended was begun
	abilities map[vf.PFID]vf.Abilities
	links     map[vf.PCIAddr]*linkHistory
	faults    map[vf.PCIAddr][]vf.Fault // by PF
	unread    map[vf.PCIAddr]time.Time  // since when PFs cannot be read
}

// New returns an empty inventory; Refresh fills it. now is the clock by which links are flapping;
// nil stands for time.Now.
func New(k kernel, now func() time.Time) *Inventory {
	if now == nil {
		now = time.Now
	}
	return &Inventory{kernel: k, now: now, abilities: map[vf.PFID]vf.Abilities{}}
}

// PFs returns the last listing, with the known abilities of each PF. The caller must not change it.
func (i *Inventory) PFs() []vf.PF {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.pfs)
}

// Listed returns when the last listing was begun; zero before the first. PFs returns values of that
// time or later.
func (i *Inventory) Listed() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.listed
}

// Changed returns a channel that is closed when the next listing is there. Call it before reading,
// or the caller misses a listing in between.
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
		i.recogniseUnread(&pfs[n])
		if pfs[n].Err == "" && pfs[n].NumVFs == 0 {
			delete(i.abilities, pfs[n].ID) // the mode of its switch may change now, and with it the abilities
		}
		i.setAbilities(&pfs[n])
	}
	if begun.Before(i.listed) {
		i.markPFs(pfs)
		return pfs, nil // a listing that began later was faster
	}
	i.observeLinks(pfs)
	i.noteUnread(pfs)
	i.markPFs(pfs)
	i.pfs, i.listed = pfs, begun
	i.changed.Notify()
	return slices.Clone(pfs), nil
}

// SetFaults sets the faults of PFs, which the listings from now on show, and the last one too.
func (i *Inventory) SetFaults(faults map[vf.PCIAddr][]vf.Fault) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.faults = faults
	i.pfs = slices.Clone(i.pfs)
	i.markPFs(i.pfs)
	i.changed.Notify()
}

// markPFs sets the fields of PFs that no single listing shows. The caller holds mu.
func (i *Inventory) markPFs(pfs []vf.PF) {
	for n := range pfs {
		h := i.links[pfs[n].PCI]
		pfs[n].Flapping, pfs[n].Faults = h != nil && h.flapping, i.faults[pfs[n].PCI]
	}
}

// Follow lists the hardware within the given time after each wake of a kernel's Watch, unless
// another listing ran meanwhile. It is for callers that show the hardware and must not wait for
// reconcile, which lets a burst of events end and may work for seconds on its findings. Follow
// lists the hardware again when a flapping link should be steady, and while a PF cannot be read,
// since the kernel has no event for the end of either. Follow returns when the watch or ctx ends.
func (i *Inventory) Follow(ctx context.Context, wake <-chan struct{}, within time.Duration, failed func(error)) {
	for {
		last, more := i.awaitReason(ctx, wake, within)
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

// awaitReason waits for a wake and the others that come within a time of it, or until untilLook. It
// returns when the last reason came; more is false when there will be none.
func (i *Inventory) awaitReason(ctx context.Context, wake <-chan struct{}, within time.Duration) (last time.Time, more bool) {
	var due <-chan time.Time
	for {
		changed := i.Changed() // another caller's listing may find a PF that cannot be read
		var look <-chan time.Time
		stop := func() bool { return true }
		if wait, needed := i.untilLook(); needed {
			timer := time.NewTimer(max(wait, within)) // listing may fail at that time
			look, stop = timer.C, timer.Stop
		}
		select {
		case <-changed:
			stop()
		case _, more := <-wake:
			stop()
			if !more {
				return last, false
			}
			last = time.Now()
			if due == nil {
				due = time.After(within)
			}
		case <-due:
			stop()
			return last, true
		case <-look:
			return time.Now(), true
		case <-ctx.Done():
			stop()
			return last, false
		}
	}
}

// A PF that cannot be read is listed again after firstLook, and then as often as it doubles the time
// that it could not be read, up to lastLook.
const firstLook, lastLook = time.Second, 30 * time.Second

// noteUnread keeps since when PFs cannot be read. The caller holds mu.
func (i *Inventory) noteUnread(pfs []vf.PF) {
	now, unread := i.now(), map[vf.PCIAddr]time.Time{}
	for _, pf := range pfs {
		if pf.Err == "" {
			continue
		}
		unread[pf.PCI] = now
		if since, known := i.unread[pf.PCI]; known {
			unread[pf.PCI] = since
		}
	}
	i.unread = unread
}

// untilLook returns how long it is until the hardware is to be listed again without an event of the
// kernel, and whether it is to be.
func (i *Inventory) untilLook() (wait time.Duration, needed bool) {
	wait, needed = i.untilSteady()
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now()
	for _, since := range i.unread {
		if w := min(max(now.Sub(since), firstLook), lastLook); !needed || w < wait {
			wait, needed = w, true
		}
	}
	return wait, needed
}

// recogniseUnread gives a PF that could not be read the identity that the PF at its PCI address
// had. Otherwise the held VFs of the PF would look as if they were gone. VFs that were read without
// the identity of their PF have no identity either, so they are left out. A PF of which nothing was
// read keeps its addresses, too.
func (i *Inventory) recogniseUnread(pf *vf.PF) {
	if pf.Err == "" {
		return
	}
	for _, old := range i.pfs {
		if old.PCI != pf.PCI || old.ID.IsZero() || isOther(*pf, old) {
			continue
		}
		if pf.ID.IsZero() {
			pf.ID, pf.Name, pf.MAC, pf.VFs = old.ID, cmp.Or(pf.Name, old.Name), old.MAC, nil
			if pf.Vendor == "" { // nothing of the PF was read: with these, selectors still find it
				pf.Vendor, pf.Device, pf.Driver, pf.NUMA, pf.IOMMUGroup = old.Vendor, old.Device, old.Driver, old.NUMA, old.IOMMUGroup
				pf.Addrs, pf.OwnAddrs, pf.HostAddrs = old.Addrs, old.OwnAddrs, old.HostAddrs
			}
		}
	}
}

// isOther reports whether a PF is another model than old, which had the same PCI address.
func isOther(pf, old vf.PF) bool {
	return pf.Vendor != "" && pf.Vendor != old.Vendor || pf.Device != "" && pf.Device != old.Device
}

// knownAbilities merges the abilities that reading a PF showed with those that probing showed.
func (i *Inventory) knownAbilities(pf vf.PF) vf.Abilities {
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

// Probed reports whether Probe has asked the PF's driver for its abilities.
func (i *Inventory) Probed(id vf.PFID) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.abilities[id] != nil
}

// setAbilities gives a PF and its VFs the abilities that are known. The VFs are copies, since callers
// read those of an earlier listing.
func (i *Inventory) setAbilities(pf *vf.PF) {
	pf.Abilities, pf.VFs = i.knownAbilities(*pf), slices.Clone(pf.VFs)
	for n := range pf.VFs {
		pf.VFs[n].Can = pf.Abilities
	}
}

// Probe asks the driver for its abilities, by writing to one VF the values that the VF has
// already. No owner may have the VF, and no other work may be under way on it. Probe returns all
// abilities that are known of the PF. It asks only the first time.
func (i *Inventory) Probe(ctx context.Context, pf vf.PF, index int) (vf.Abilities, error) {
	if i.Probed(pf.ID) {
		i.mu.Lock()
		defer i.mu.Unlock()
		return i.knownAbilities(pf), nil
	}
	a, err := i.kernel.Probe(ctx, pf.PCI, index)
	if err != nil {
		return nil, err
	}
	if a == nil {
		a = vf.Abilities{}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.abilities[pf.ID] = a
	for n := range i.pfs {
		if i.pfs[n].ID == pf.ID {
			i.setAbilities(&i.pfs[n])
		}
	}
	return i.knownAbilities(pf), nil
}
