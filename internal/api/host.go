package api

import (
	"time"

	"github.com/culvert-net/culvert/internal/vf"
)

// HostRequest is the parameter of MethodHostPlan and MethodHostApply.
type HostRequest struct {
	File    string `json:"file"` // names Content in messages
	Content string `json:"content"`
	// Force applies the file even if owners lose their VFs; MethodHostPlan ignores it.
	Force bool `json:"force,omitempty"`
	// ForTrial makes MethodHostPlan answer with Plan.Stays, too.
	ForTrial bool `json:"forTrial,omitempty"`
}

// HostTryRequest is the parameter of MethodHostTry.
type HostTryRequest struct {
	File    string `json:"file"` // names Content in messages
	Content string `json:"content"`
	// Seconds is how long the trial lasts after the file is applied.
	Seconds int `json:"seconds"`
}

// HostTrial is a host.yaml on trial: culvertd goes back to the one before it unless an
// administrator confirms it.
type HostTrial struct {
	Began time.Time `json:"began"`
	// Until is the end of the trial. It is zero while culvertd applies the file.
	Until time.Time `json:"until,omitzero"`
	// GoingBack is set if the trial is over and culvertd brings the state before it back.
	GoingBack bool `json:"goingBack,omitempty"`
}

// Plan has the changes that a host.yaml would cause, PF by PF: the answer to MethodHostPlan. It
// leaves out PFs that do not change.
type Plan struct {
	PFs []PFPlan `json:"pfs"`
	// Notes are about the file and not about one PF: an entry that no PF
	// matches, a pool that gets no VF.
	Notes []string `json:"notes,omitempty"`
	// Stays are, for a trial, the changes that going back does not undo.
	Stays []string `json:"stays,omitempty"`
}

// PFPlan has the changes on one PF.
type PFPlan struct {
	PF      string     `json:"pf"`
	PCI     vf.PCIAddr `json:"pci"`
	Changes []Change   `json:"changes"`
	// Steps are the changes in the kernel, in order, in words for people.
	Steps []string `json:"steps,omitempty"`
	// Hurts are the owners who would lose their VF.
	Hurts []Holder `json:"hurts,omitempty"`
	// Refused is the reason why the PF cannot be changed like this, even with force.
	Refused string `json:"refused,omitempty"`
}

// Kinds of change.
const (
	Add    = "+"
	Remove = "-"
	Modify = "~"
)

// Change is one line of a plan: an object or attribute that is added, removed or modified.
type Change struct {
	Op string `json:"op"` // Add, Remove or Modify
	// Object is "VF 3", or empty for the PF itself.
	Object    string `json:"object,omitempty"`
	Attribute string `json:"attribute,omitempty"` // of Modify, e.g. mtu
	From      string `json:"from,omitempty"`
	To        string `json:"to,omitempty"`
	// Note explains, e.g. "held by pod default/a".
	Note string `json:"note,omitempty"`
}

// Holder is an owner of a VF.
type Holder struct {
	VF      string   `json:"vf"` // name: PF#index
	Owner   vf.Owner `json:"owner"`
	Network string   `json:"network,omitempty"`
	Phase   string   `json:"phase"`
}

// ApplyResult is the answer to MethodHostApply.
type ApplyResult struct {
	Plan Plan `json:"plan"`
	// Applied is set if the file was written and culvertd applies it to the kernel. It is false if
	// an owner would lose a VF and Force was not given, or if the file wants something that a PF
	// cannot do. Nothing was changed then.
	Applied bool `json:"applied"`
	// Problems are the failures while culvertd applied the file, PF by PF. The file is written all
	// the same, and culvertd tries again.
	Problems []Problem `json:"problems,omitempty"`
	// Trial is the answer's trial to MethodHostTry, and what is left of it after MethodHostRevert.
	Trial *HostTrial `json:"trial,omitempty"`
}
