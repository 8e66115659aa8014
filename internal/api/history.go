package api

import (
	"net/netip"
	"time"

	"github.com/culvert-net/culvert/internal/vf"
)

// EventsRequest is the parameter of MethodEvents, which answers with a
// stream of Event, oldest first: the events with a greater Seq than After.
type EventsRequest struct {
	After uint64 `json:"after"`
	// Follow continues the stream with new events, until the caller disconnects.
	Follow bool `json:"follow,omitempty"`
}

// Event is one event of a node.
type Event struct {
	Seq    uint64    `json:"seq"`
	Time   time.Time `json:"time"`
	Type   string    `json:"type"`   // Normal or Warning
	Reason string    `json:"reason"` // one CamelCase word
	Object string    `json:"object"`
	Text   string    `json:"text"`

	// VF is the VF that the event is about. It and the fields down to Settings are absent in an event
	// about something else, and in one that an older culvertd wrote.
	VF vf.ID `json:"vf,omitzero"`
	// Phase is the VF's phase after the event; it is empty if the VF no longer exists.
	Phase vf.Phase `json:"phase,omitempty"`
	// Owner had the VF, or was about to get it, when the event happened. PodUID is the UID of its pod.
	Owner vf.Owner `json:"owner,omitzero"`
	// Claim is the ResourceClaim that has the VF; absent for none. It is the owner too while the VF has
	// no lease.
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

// Span is a time in which one owner had a VF, or in which the VF had none.
type Span struct {
	VF   vf.ID  `json:"vf"`
	Name string `json:"name"` // PF#index, or its PCI address if the host has it no longer
	// From is absent if the span began before the oldest event, and To if it goes on.
	From      time.Time    `json:"from,omitzero"`
	To        time.Time    `json:"to,omitzero"`
	Owner     vf.Owner     `json:"owner,omitzero"`
	PodUID    string       `json:"podUID,omitempty"`
	Network   string       `json:"network,omitempty"`
	MAC       vf.MAC       `json:"mac,omitzero"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
	Settings  string       `json:"settings,omitempty"`
	// Changes are the events of the VF and its PF in that time, but for the plain begin and end.
	Changes []Event `json:"changes,omitempty"`
}
