package inventory

import (
	"slices"
	"time"

	"github.com/culvert-net/culvert/internal/vf"
)

// portReset is how long losses of carrier may follow a change of the number of VFs or of the MTU.
// An igb loses its carrier once at each such change, and needs three seconds to get it back
// (TestLabOwnWorkIsNoFlapping).
const portReset = 10 * time.Second

// linkReading is the state of a PF's link in one listing.
type linkReading struct {
	losses      uint32 // vf.PF.CarrierLosses
	numVFs, mtu int
}

// linkHistory has the losses of carrier of one PF's link, as the listings so far have shown them.
// The zero value is for a PF that was not listed yet.
type linkHistory struct {
	listed     bool
	reading    linkReading
	losses     []time.Time // the last ones that count, at most vf.FlapLosses
	lastLoss   time.Time
	graceUntil time.Time // the losses until then are those of a change of the PF
	// flapping is whether the link was flapping at the last listing.
	flapping bool
}

// observe adds a listing. The kernel counts the losses, so that those between two listings are
// not missed. A count that is lower than the last one is of a new netdevice: the driver was bound
// anew. Losses within portReset of a change of the PF do not count.
func (h *linkHistory) observe(r linkReading, now time.Time) {
	before := h.reading
	h.reading = r
	if !h.listed {
		h.listed = true
		return
	}
	if r.numVFs != before.numVFs || r.mtu != before.mtu {
		h.graceUntil = now.Add(portReset)
		h.losses = slices.DeleteFunc(h.losses, func(at time.Time) bool { return now.Sub(at) < portReset })
	}
	if r.losses > before.losses && !now.Before(h.graceUntil) {
		for range min(r.losses-before.losses, vf.FlapLosses) {
			h.losses = append(h.losses, now)
		}
		h.losses = h.losses[max(len(h.losses)-vf.FlapLosses, 0):]
		h.lastLoss = now
	}
	switch {
	case h.flapping && !now.Before(h.steadyAt()):
		h.flapping = false
	case len(h.losses) == vf.FlapLosses && now.Sub(h.losses[0]) < vf.FlapPeriod:
		h.flapping = true
	}
}

// steadyAt returns when a flapping link is steady if it loses no carrier until then.
func (h *linkHistory) steadyAt() time.Time { return h.lastLoss.Add(vf.FlapPeriod) }

// observeLinks adds a listing to the histories. The caller holds mu.
func (i *Inventory) observeLinks(pfs []vf.PF) {
	now, links := i.now(), make(map[vf.PCIAddr]*linkHistory, len(pfs))
	for _, pf := range pfs {
		h := i.links[pf.PCI]
		if h == nil {
			h = &linkHistory{}
		}
		switch {
		case pf.MTU > 0:
			h.observe(linkReading{pf.CarrierLosses, pf.NumVFs, pf.MTU}, now)
		case h.listed: // its link could not be read this time
			h.observe(h.reading, now)
		}
		links[pf.PCI] = h
	}
	i.links = links
}

// untilSteady returns how long the first of the flapping links needs to be steady, and whether any
// is flapping.
func (i *Inventory) untilSteady() (wait time.Duration, flapping bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now()
	for _, h := range i.links {
		if h.flapping {
			if left := h.steadyAt().Sub(now); !flapping || left < wait {
				wait, flapping = left, true
			}
		}
	}
	return wait, flapping
}
