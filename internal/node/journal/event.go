package journal

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/vf"
)

// Event is one thing that happened, for people. The events of the ledger are the node's history.
type Event struct {
	Seq    uint64    `json:"seq"`
	Time   time.Time `json:"time"`
	Type   string    `json:"type"`   // Normal or Warning, as in Kubernetes
	Reason string    `json:"reason"` // one CamelCase word, e.g. Attached
	Object string    `json:"object"` // "VF 0000:01:10.2", "PF enp1s0f0", "pool a/b"
	Text   string    `json:"text"`

	// VF is the VF that the event is about. It and the fields down to Settings are zero for an event
	// about something else, and for an event that an older culvertd wrote.
	VF vf.ID `json:"vf,omitzero"`
	// Phase is the VF's phase after the event; it is empty if the VF no longer exists.
	Phase vf.Phase `json:"phase,omitempty"`
	// Owner had the VF, or was about to get it, when the event happened.
	Owner vf.Owner `json:"owner,omitzero"`
	// Claim is the ResourceClaim that has the VF; zero for none.
	Claim     vf.Owner     `json:"claim,omitzero"`
	PodUID    string       `json:"podUID,omitempty"`
	Network   string       `json:"network,omitempty"`
	MAC       vf.MAC       `json:"mac,omitzero"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Settings are those of an owner's VF that differ from its baseline.
	Settings string `json:"settings,omitempty"`

	// PF is the PF that an event about a PF is about.
	PF vf.PFID `json:"pf,omitzero"`
	// By is the user who ran the command that the event is about.
	By string `json:"by,omitempty"`
}

// EventKind is the kind of an event, for counters.
type EventKind struct{ Type, Reason string }

// Types of event.
const (
	Normal  = "Normal"
	Warning = "Warning"
)

// The ledger keeps at least LeastEvents and at most MostEvents, as Options.KeepEvents says.
const (
	LeastEvents   = 1000
	DefaultEvents = 10_000
	MostEvents    = 100_000
)

// mostDropped is how many old events one new event drops at most: more than one only after the
// number of kept events was lowered.
const mostDropped = 64

// fillOfEvents is how full bbolt leaves a page of events that it splits. Events come in the order of
// their keys, so no later one goes into that page. bbolt's own value, a half, doubles the file.
const fillOfEvents = 0.95

// MakeEvent returns an event about the record's VF, with the owner that the record names. All events
// about a VF with a record come from here, so that each names its VF and owner.
func (r Record) MakeEvent(kind, reason, text string) Event {
	l := r.Lease
	e := Event{
		Type: kind, Reason: reason, Object: "VF " + r.PCI.String(), Text: text,
		VF: r.ID, Phase: r.Phase, Owner: r.OwnerOrClaim(), PodUID: l.PodUID, Network: l.Network,
	}
	if r.Claim != nil {
		e.Claim = r.Claim.Owner()
	}
	if l.Owner.IsZero() {
		return e
	}
	e.MAC = cmp.Or(l.LinkMAC, l.Effective.MAC, l.Wanted.MACOver(r.Baseline))
	for _, a := range l.Wanted.Addresses {
		e.Addresses = append(e.Addresses, a.Prefix.Addr())
	}
	return e
}

// DescribeSettings lists the settings of an attached VF that differ from its baseline: "vlan 100,
// trust on".
func (r Record) DescribeSettings() string {
	var parts []string
	for _, d := range r.Baseline.DiffAdmin(r.Lease.Effective) {
		if d.Attribute != "mac" { // the event has it
			parts = append(parts, d.Attribute+" "+cmp.Or(d.Have, "none"))
		}
	}
	w := r.Lease.Wanted
	if w.MTU != nil {
		parts = append(parts, fmt.Sprint("mtu ", *w.MTU))
	}
	if w.Driver == vf.DriverVFIO {
		parts = append(parts, "driver "+w.Driver)
	}
	return strings.Join(parts, ", ")
}

// Event adds an event, with the next sequence number, and drops the oldest if there are more than the
// ledger keeps.
func (t *Tx) Event(e Event) error {
	events := t.tx.Bucket(bucketEvents)
	events.FillPercent = fillOfEvents
	c := events.Cursor()
	last, _ := c.Last()
	e.Seq, e.Time = seqOf(last)+1, t.now
	if e.Seq > uint64(t.keepEvents) {
		bound := string(seqKey(e.Seq - uint64(t.keepEvents)))
		k, _ := c.First()
		for n := 0; k != nil && string(k) <= bound && n < mostDropped; n++ {
			if err := t.deleteEntry(bucketEvents, k); err != nil {
				return err
			}
			k, _ = c.First()
		}
	}
	t.events = append(t.events, EventKind{e.Type, e.Reason})
	return t.putJSON(bucketEvents, seqKey(e.Seq), e)
}

// Events returns the events after a sequence number, oldest first. EventPage returns a part of them.
func (t *Tx) Events(after uint64) []Event { return t.EventPage(after, math.MaxInt) }

// EventPage returns the events after a sequence number, oldest first, and at most a number of them.
func (t *Tx) EventPage(after uint64, most int) []Event {
	events, _ := decodeEvents(func(yield func([]byte, []byte) bool) {
		n := 0
		for k, stored := range t.entriesFrom(bucketEvents, seqKey(after+1)) {
			if n == most || !yield(k, stored) {
				return
			}
			n++
		}
	})
	return events
}
