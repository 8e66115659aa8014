package netannotation

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/vf"
)

// Confirmation lists the attached VFs that a node's ledger has of a pod at a time. culvertd writes
// it with the network-status, in one request. The controller uses it until it has a NodeState
// that the node read after At (docs/design/0026-writes.md).
type Confirmation struct {
	// Pod is the UID of the pod: the text means nothing in another pod, into which a user may
	// have copied it.
	Pod string        `json:"pod"`
	At  time.Time     `json:"at"`
	VFs []ConfirmedVF `json:"vfs"`
}

// ConfirmedVF is an attached VF.
type ConfirmedVF struct {
	Interface string `json:"interface"`
	// Network is namespace/name of the NetworkAttachmentDefinition, or the name of the default
	// network. Earlier versions of culvertd leave it out.
	Network   string   `json:"network,omitempty"`
	Pool      string   `json:"pool,omitempty"`
	Addresses []string `json:"addresses,omitempty"` // with their prefix lengths
}

// String returns the text of the annotation.
func (c Confirmation) String() string {
	raw, _ := json.Marshal(c) // texts and a time
	return string(raw)
}

// ParseConfirmation reads the annotation Confirmed.
func ParseConfirmation(text string) (Confirmation, error) {
	var c Confirmation
	if len(text) > netconf.MaxText {
		return c, fmt.Errorf("annotation %s: %w: it has %d bytes; want at most %d", Confirmed, vf.ErrInvalid, len(text), netconf.MaxText)
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return Confirmation{}, fmt.Errorf("annotation %s: %w: %w", Confirmed, vf.ErrInvalid, err)
	}
	return c, nil
}

// SameVFs reports whether two Confirmations differ at most in their times.
func (c Confirmation) SameVFs(other Confirmation) bool {
	return c.Pod == other.Pod && slices.EqualFunc(c.VFs, other.VFs, func(a, b ConfirmedVF) bool {
		return a.Interface == b.Interface && a.Network == b.Network && a.Pool == b.Pool && slices.Equal(a.Addresses, b.Addresses)
	})
}
