package api

import (
	"encoding/json"
	"time"

	"github.com/culvert-net/culvert/vf"
)

// Ledger is what is in a node's ledger: the answer to MethodLedger, and
// what culvert ledger dump reads from a file.
type Ledger struct {
	File      string          `json:"file"`
	Format    string          `json:"format"`
	Boot      string          `json:"boot"` // ID of the boot under which it was last used
	Records   []LedgerRecord  `json:"records"`
	Addresses []LedgerAddress `json:"addresses"`
	Events    []Event         `json:"events"`
	// Sandboxes are those of pods whose networks culvertd sets up.
	Sandboxes []LedgerSandbox `json:"sandboxes,omitempty"`
	// Problems are all that is wrong with it.
	Problems []LedgerProblem `json:"problems"`
	// Refused says that culvertd does not open the file: something may be
	// missing from it, and from this.
	Refused bool `json:"refused,omitempty"`
}

// LedgerRecord is what the ledger says of one VF.
type LedgerRecord struct {
	VF         vf.ID      `json:"vf"`
	PCI        vf.PCIAddr `json:"pci"` // where it was when last seen
	Phase      string     `json:"phase"`
	Generation uint64     `json:"generation"`
	Since      time.Time  `json:"since,omitzero"` // of the phase
	Released   time.Time  `json:"released,omitzero"`
	Reason     string     `json:"reason,omitempty"`
	Attempts   int        `json:"attempts,omitempty"`
	NextRetry  time.Time  `json:"nextRetry,omitzero"`

	Owner    *vf.Owner    `json:"owner,omitempty"`
	Network  string       `json:"network,omitempty"`
	Pool     string       `json:"pool,omitempty"`
	Netns    string       `json:"netns,omitempty"`
	Bond     *vf.Bond     `json:"bond,omitempty"` // of which it is a member
	Wanted   *vf.Spec     `json:"wanted,omitempty"`
	Given    *vf.Admin    `json:"given,omitempty"` // as read back when the attach was done
	Baseline *vf.Baseline `json:"baseline,omitempty"`
}

// LedgerSandbox is what the ledger says of a pod's sandbox.
type LedgerSandbox struct {
	ID       string                 `json:"id"` // CNI container ID
	Pod      string                 `json:"pod,omitempty"`
	UID      string                 `json:"uid,omitempty"`
	Netns    string                 `json:"netns,omitempty"`
	Phase    string                 `json:"phase"`
	Since    time.Time              `json:"since,omitzero"`
	Networks []LedgerSandboxNetwork `json:"networks"`
	Damage   string                 `json:"damage,omitempty"`
	// Omitted is the size of its entry in bytes where Networks is left out: those of a node
	// may be too large for one answer.
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
	VF      string    `json:"vf,omitempty"` // its ID; empty when nobody knows
	Owner   *vf.Owner `json:"owner,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Damage  string    `json:"damage,omitempty"`
}

// LedgerProblem is one thing in a ledger that cannot be true or be read.
type LedgerProblem struct {
	Invariant string `json:"invariant,omitempty"` // the one that it breaks, if it does
	Object    string `json:"object"`
	What      string `json:"what"`
	Means     string `json:"means"`
}
