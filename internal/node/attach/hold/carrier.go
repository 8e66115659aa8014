package hold

import (
	"time"

	"github.com/culvert-net/culvert/internal/node/alloc"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// DarkBound is how long a VF may be without carrier while its PF has a link. A VF driver needs some
// seconds until it has carrier, after its interface is set up and after a reset of the PF.
const DarkBound = 10 * time.Second

// Darkness is about a VF whose interface is up without carrier although its PF has a link.
type Darkness struct {
	Since    time.Time // zero: it has carrier, or its PF was reset after the last look
	Reported bool      // an event has reported it
}

// WasDark reports whether the VF of a lease was without carrier at the last look although its PF
// had a link, and has been so for DarkBound.
func (h *VFs) WasDark(r journal.Record) bool {
	since := h.Dark.Load(r).Since
	return !since.IsZero() && h.Now().Sub(since) >= DarkBound
}

// IsDark reports whether the interface of an attached VF has been up without carrier for DarkBound
// or longer, although its PF has a link.
func (h *VFs) IsDark(r journal.Record) bool {
	last := h.Dark.Load(r)
	return r.Phase == vf.PhaseAttached && last.Reported && !last.Since.IsZero()
}

// IsDoubtful reports whether Culvert gives out VFs of a PF only if no VF of another PF is free.
func (h *VFs) IsDoubtful(pf vf.PF, records []journal.Record) bool {
	return alloc.IsDoubtful(pf, records, h.IsDark)
}
