package failure

import (
	"context"
	"errors"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// strangersNetns is the netns of those who use VFs outside Culvert.
const strangersNetns = "/run/netns/strangers"

// strangers are the VFs that somebody uses outside Culvert, as they were when the use began.
type strangers map[vf.PCIAddr]vf.State

// strangerComes begins to use a free VF outside Culvert: in another netns, or on the host, by an
// interface on top of it.
func (h *history) strangerComes(t *rapid.T) {
	free := slices.DeleteFunc(h.vfs(), func(v vf.State) bool {
		_, taken := h.strangers[v.PCI]
		return taken || h.dirty[v.PCI] || v.Link == nil || !h.isFree(v.ID)
	})
	if len(free) == 0 {
		return
	}
	v := rapid.SampledFrom(free).Draw(t, "VF")
	netns := ""
	if rapid.Bool().Draw(t, "moves it") {
		netns = strangersNetns
		h.k.AddNetns(netns)
	}
	h.touched(v.PCI)
	must(h.world, h.k.Occupy(v.PCI, "a VLAN of the host is on top of it"))
	h.meddle(v.PCI, func(st *vf.State) { onLink(st, func(l *vf.Link) { l.Netns, l.Up, l.MTU = netns, true, 1300 }) })
	st, err := h.k.VF(context.Background(), v.PCI, netns)
	must(h.world, err)
	h.strangers[v.PCI] = st
	if rapid.Bool().Draw(t, "seen") {
		h.pass()
	}
}

func (h *history) isFree(id vf.ID) bool {
	return slices.ContainsFunc(h.records(), func(r journal.Record) bool { return r.ID == id && r.Phase == vf.PhaseFree })
}

// strangerGoes ends the use of one VF outside Culvert.
func (h *history) strangerGoes(t *rapid.T) {
	if len(h.strangers) > 0 {
		h.strangerLeaves(rapid.SampledFrom(slices.SortedFunc(maps.Keys(h.strangers), vf.PCIAddr.Compare)).Draw(t, "VF"))
	}
}

func (h *history) strangerLeaves(pci vf.PCIAddr) {
	if _, used := h.strangers[pci]; used {
		delete(h.strangers, pci)
		must(h.world, h.k.Occupy(pci, ""))
		h.meddle(pci, func(st *vf.State) { onLink(st, func(l *vf.Link) { l.Netns, l.Up = "", false }) })
	}
}

// strangersLeave ends all uses outside Culvert.
func (h *history) strangersLeave() {
	for pci := range maps.Clone(h.strangers) {
		h.strangerLeaves(pci)
	}
}

// kept checks I2: a VF that is used outside Culvert is as its user made it, and has no other owner.
func (h *history) kept() {
	for pci, was := range h.strangers {
		st, err := h.k.VF(context.Background(), pci, strangersNetns)
		switch {
		case errors.Is(err, vf.ErrNotFound):
			h.t.Errorf("I2: VF %s, which is used outside Culvert, is gone", pci)
		case err != nil:
			h.t.Errorf("VF %s: %v", pci, err)
		case st.Driver != was.Driver || st.Link == nil || st.Link.Netns != was.Link.Netns || st.Link.Up != was.Link.Up || st.Link.MTU != was.Link.MTU:
			h.t.Errorf("I2: VF %s, which is used outside Culvert, has changed from %+v to %+v", pci, was, st)
		}
		for _, r := range h.records() {
			if r.PCI == pci && r.Held() {
				h.t.Errorf("I2: VF %s, which is used outside Culvert, is %s for %s", pci, r.Phase, r.Lease.Owner)
			}
		}
	}
}
