package api

import (
	"encoding/json"
	"time"

	"github.com/culvert-net/culvert/internal/vf"
)

// Ledger is the content of a node's ledger: the answer to MethodLedger, and the result of culvert
// ledger dump from a file.
type Ledger struct {
	File      string          `json:"file"`
	Format    string          `json:"format"`
	Boot      string          `json:"boot"` // ID of the boot under which it was last used
	Records   []LedgerRecord  `json:"records"`
	Addresses []LedgerAddress `json:"addresses"`
	// Events are absent in the answer of MethodLedger: MethodEvents streams them.
	Events []Event `json:"events"`
	// Sandboxes are the sandboxes of pods whose networks culvertd sets up.
	Sandboxes []LedgerSandbox `json:"sandboxes,omitempty"`
	// Problems are all problems of the ledger.
	Problems []LedgerProblem `json:"problems"`
	// Refused is set if culvertd does not open the file. Entries may then be missing from the file,
	// and so from this value.
	Refused bool `json:"refused,omitempty"`
}

// LedgerRecord is the ledger's record of one VF.
type LedgerRecord struct {
	VF         vf.ID      `json:"vf"`
	PCI        vf.PCIAddr `json:"pci"` // where the VF was last seen
	Phase      string     `json:"phase"`
	Generation uint64     `json:"generation"`
	Since      time.Time  `json:"since,omitzero"` // of the phase
	Released   time.Time  `json:"released,omitzero"`
	Reason     string     `json:"reason,omitempty"`
	Attempts   int        `json:"attempts,omitempty"`
	NextRetry  time.Time  `json:"nextRetry,omitzero"`

	Owner    *vf.Owner    `json:"owner,omitempty"`
	Claim    *Claim       `json:"claim,omitempty"`
	Network  string       `json:"network,omitempty"`
	Pool     string       `json:"pool,omitempty"`
	Netns    string       `json:"netns,omitempty"`
	Bond     *vf.Bond     `json:"bond,omitempty"` // of which the VF is a member
	Wanted   *vf.Spec     `json:"wanted,omitempty"`
	Given    *vf.Admin    `json:"given,omitempty"` // as read back at the end of the attach
	Baseline *vf.Baseline `json:"baseline,omitempty"`
}

// LedgerSandbox is the ledger's record of a pod's sandbox.
type LedgerSandbox struct {
	ID       string                 `json:"id"` // CNI container ID
	Pod      string                 `json:"pod,omitempty"`
	UID      string                 `json:"uid,omitempty"`
	Netns    string                 `json:"netns,omitempty"`
	Phase    string                 `json:"phase"`
	Since    time.Time              `json:"since,omitzero"`
	Networks []LedgerSandboxNetwork `json:"networks"`
	Damage   string                 `json:"damage,omitempty"`
	// Omitted is the size of the entry in bytes if Networks is left out, since the networks of a
	// node may be too large for one answer.
	Omitted int `json:"omitted,omitempty"`
}

// LedgerSandboxNetwork is one network of a sandbox, the default one first.
type LedgerSandboxNetwork struct {
	Name      string            `json:"name"`
	Interface string            `json:"interface"`
	Plugins   []json.RawMessage `json:"plugins"`
	Result    json.RawMessage   `json:"result,omitempty"`
}

// LedgerAddress is one address that is held.
type LedgerAddress struct {
	Network string    `json:"network"`
	Address string    `json:"address"`
	VF      string    `json:"vf,omitempty"` // the ID of the VF; empty if it is unknown
	Owner   *vf.Owner `json:"owner,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Damage  string    `json:"damage,omitempty"`
}

// LedgerProblem is an entry of a ledger that cannot be read, or contradicts others.
type LedgerProblem struct {
	Invariant string `json:"invariant,omitempty"` // that the entry breaks; empty if none
	Object    string `json:"object"`
	What      string `json:"what"`
	Means     string `json:"means"`
}
