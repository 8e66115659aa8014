package pick

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// Subject says which owners to show; an empty field admits all.
type Subject struct {
	Owner, PodUID string
	MAC           vf.MAC
	Address       netip.Addr
}

// AdmitsEvent reports whether the subject of an event is one to show.
func (s Subject) AdmitsEvent(e api.Event) bool {
	return s.admitsOwner(e.Owner, e.PodUID, e.MAC, e.Addresses)
}

func (s Subject) admitsOwner(owner vf.Owner, podUID string, mac vf.MAC, addresses []netip.Addr) bool {
	return (s.Owner == "" || isOwnerOf(&owner, s.Owner)) && (s.PodUID == "" || podUID == s.PodUID) &&
		(s.MAC.IsZero() || mac == s.MAC) && (!s.Address.IsValid() || slices.Contains(addresses, s.Address))
}

// Events says which events to show; an empty field admits all.
type Events struct {
	Subject
	Since time.Time
}

// AdmitsEvent reports whether the event is one to show.
func (f Events) AdmitsEvent(e api.Event) bool {
	return !e.Time.Before(f.Since) && f.Subject.AdmitsEvent(e)
}

// History says which VFs and spans of a node's history to show; an empty field admits all.
type History struct {
	Events
	VFs []vf.ID
	PF  vf.PFID
}

// NewHistory returns the filter for the VFs that a word names, and for a PF that is named; each may be
// empty. The word may also be the identity or the PCI address of a VF that the host no longer has.
// The errors are those of VF.
func NewHistory(st api.NodeStatus, f Events, word, pf string) (h History, err error) {
	h.Events = f
	if pf != "" {
		if h.PF, err = findPF(st, pf); err != nil {
			return h, err
		}
	}
	if word == "" {
		return h, nil
	}
	if id, err := vf.ParseID(word); err == nil {
		h.VFs = []vf.ID{id}
		return h, nil
	}
	found, err := VF(st, word)
	for _, v := range found {
		h.VFs = append(h.VFs, v.ID)
	}
	return h, err
}

// admitsVF reports whether a VF is one to show.
func (h History) admitsVF(id vf.ID) bool {
	return (len(h.VFs) == 0 || slices.Contains(h.VFs, id)) && (h.PF.IsZero() || id.PF == h.PF)
}

// admitsPF reports whether a PF's event is one to show.
func (h History) admitsPF(id vf.PFID) bool {
	ofVF := func(v vf.ID) bool { return v.PF == id }
	return (len(h.VFs) == 0 || slices.ContainsFunc(h.VFs, ofVF)) && (h.PF.IsZero() || id == h.PF)
}

// SelectEvents returns the events about VFs and PFs that the filter admits.
func (h History) SelectEvents(st api.NodeStatus, events []api.Event) []api.Event {
	known := mapVFs(st)
	out := []api.Event{}
	for _, e := range events {
		id, isVF := findSubject(e, known)
		isShown := isVF && h.admitsVF(id) || !e.PF.IsZero() && h.admitsPF(e.PF)
		if isShown && h.AdmitsEvent(e) {
			out = append(out, e)
		}
	}
	return out
}

// mapVFs returns the identities of the node's VFs by their PCI addresses.
func mapVFs(st api.NodeStatus) map[string]vf.ID {
	known := map[string]vf.ID{}
	for _, v := range st.VFs {
		known[v.PCI.String()] = v.ID
	}
	return known
}

// findSubject returns the VF that an event is about. Events that an older culvertd wrote have only its PCI
// address.
func findSubject(e api.Event, known map[string]vf.ID) (vf.ID, bool) {
	if e.VF != (vf.ID{}) {
		return e.VF, true
	}
	pci, isVF := strings.CutPrefix(e.Object, "VF ")
	id, isKnown := known[pci]
	return id, isVF && isKnown
}

// MakeSpans returns who had which VF when, in the order in which the spans began. The events are oldest
// first.
func (h History) MakeSpans(st api.NodeStatus, events []api.Event) []api.Span {
	b := spanBuilder{open: map[vf.ID]*api.Span{}, last: map[vf.ID]*api.Span{}, known: mapVFs(st), names: map[vf.ID]string{}}
	for _, v := range st.VFs {
		b.names[v.ID] = v.Name
	}
	for _, e := range events {
		b.addEvent(e)
	}
	out := []api.Span{}
	for _, s := range b.all {
		isLate := s.To.IsZero() || !s.To.Before(h.Since)
		if isLate && h.admitsVF(s.VF) && h.admitsOwner(s.Owner, s.PodUID, s.MAC, s.Addresses) {
			out = append(out, *s)
		}
	}
	return out
}

// spanBuilder makes spans of events.
type spanBuilder struct {
	all   []*api.Span
	open  map[vf.ID]*api.Span // those that go on
	last  map[vf.ID]*api.Span // the latest of each VF
	known map[string]vf.ID    // by PCI address
	names map[vf.ID]string
}

// addEvent adds an event to the span of its VF, or to those of all VFs of its PF. A VF of which only
// events of an older culvertd are known has a span without an owner.
func (b *spanBuilder) addEvent(e api.Event) {
	if !e.PF.IsZero() {
		for _, s := range b.all {
			if s.VF.PF == e.PF && b.open[s.VF] == s {
				s.Changes = append(s.Changes, e)
			}
		}
		return
	}
	id, isVF := findSubject(e, b.known)
	if !isVF {
		return
	}
	isOld := e.VF == (vf.ID{})
	isEnd := !isOld && (e.Phase == vf.PhaseFree || e.Phase == "" || e.Reason == reasons.Unprepared && e.Phase == vf.PhaseReleasing)
	s := b.open[id]
	owner := e.Owner
	switch {
	case s != nil && e.Phase == vf.PhasePrepared:
		owner = s.Owner // of the lease that ends, or the claim
	case e.Phase == vf.PhasePrepared:
		owner = e.Claim
	case s != nil && isOld, s != nil && isEnd && (owner.IsZero() || s.Owner.IsZero()):
		owner = s.Owner
	case !isEnd && !isHeld(e.Phase):
		owner = vf.Owner{} // in quarantine
	}
	if s != nil && s.Owner != owner {
		b.endSpan(s, e.Time)
		s = nil
	}
	if last := b.last[id]; s == nil && isEnd && last != nil && last.Owner == owner && !owner.IsZero() {
		last.Changes = append(last.Changes, e) // of a lease that has just ended
		return
	}
	if s == nil && isEnd && owner.IsZero() && e.Reason == reasons.Detached { // the reset at the end of a claim
		return
	}
	if s == nil {
		s = b.beginSpan(id, owner, e)
	}
	addToSpan(s, e)
	if isEnd {
		b.endSpan(s, e.Time)
	}
	if e.Phase == vf.PhasePrepared && s.Owner != e.Claim { // its lease or its quarantine has ended
		b.endSpan(s, e.Time)
		b.beginSpan(id, e.Claim, e).From = e.Time
	}
}

func isHeld(p vf.Phase) bool {
	return p == vf.PhaseConfiguring || p == vf.PhaseAttached || p == vf.PhaseReleasing
}

// beginSpan begins a span with an event. If the event is not the first one of a lease, the span began
// before the oldest event.
func (b *spanBuilder) beginSpan(id vf.ID, owner vf.Owner, e api.Event) *api.Span {
	s := &api.Span{VF: id, Name: cmp.Or(b.names[id], strings.TrimPrefix(e.Object, "VF ")), Owner: owner}
	isFirst := slices.Contains([]string{reasons.Attached, reasons.Prepared, reasons.Adopted, reasons.AttachFailed, reasons.DuplicateAddress}, e.Reason)
	if isFirst || owner.IsZero() {
		s.From = e.Time
	}
	b.all, b.open[id], b.last[id] = append(b.all, s), s, s
	return s
}

func (b *spanBuilder) endSpan(s *api.Span, at time.Time) {
	s.To = at
	delete(b.open, s.VF)
}

// addToSpan adds an event to the span of its VF.
func addToSpan(s *api.Span, e api.Event) {
	if !s.Owner.IsZero() && e.Owner == s.Owner {
		s.PodUID, s.Network, s.MAC = cmp.Or(e.PodUID, s.PodUID), cmp.Or(e.Network, s.Network), cmp.Or(e.MAC, s.MAC)
		s.Settings = cmp.Or(e.Settings, s.Settings)
		if len(e.Addresses) > 0 {
			s.Addresses = e.Addresses
		}
	}
	isPlain := slices.Contains([]string{reasons.Attached, reasons.Detached, reasons.Prepared, reasons.Unprepared}, e.Reason) && e.Type == "Normal" && !s.Owner.IsZero()
	if !isPlain {
		s.Changes = append(s.Changes, e)
	}
}
