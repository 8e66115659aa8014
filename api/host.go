package api

import "github.com/culvert-net/culvert/vf"

// HostRequest is the parameter of MethodHostPlan and MethodHostApply.
type HostRequest struct {
	File    string `json:"file"` // names Content in messages
	Content string `json:"content"`
	// Force applies even if holders are hurt; MethodHostPlan takes no notice.
	Force bool `json:"force,omitempty"`
}

// Plan is what a host.yaml would change, PF by PF: the answer to MethodHostPlan.
// PFs that stay as they are are not in it.
type Plan struct {
	PFs []PFPlan `json:"pfs"`
	// Notes are about the file and not about one PF: an entry that no PF
	// matches, a pool that gets no VF.
	Notes []string `json:"notes,omitempty"`
}

// PFPlan is what would change on one PF.
type PFPlan struct {
	PF      string     `json:"pf"`
	PCI     vf.PCIAddr `json:"pci"`
	Changes []Change   `json:"changes"`
	// Steps are the kernel's part, in order, as people would say it.
	Steps []string `json:"steps,omitempty"`
	// Hurts are those who would lose their VF.
	Hurts []Holder `json:"hurts,omitempty"`
	// Refused is the reason why the PF cannot be made like this, also with force.
	Refused string `json:"refused,omitempty"`
}

// Kinds of change.
const (
	Add    = "+"
	Remove = "-"
	Modify = "~"
)

// Change is one line of a plan: something that comes, goes or becomes
// something else.
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
	// Applied says that the file was written and the kernel follows it. It is
	// false when the plan hurts a holder and Force was not given, or when the
	// file asks of a PF what it cannot do; nothing was changed then.
	Applied bool `json:"applied"`
	// Problems are what went wrong while it was carried out, PF by PF; the
	// file is written all the same and culvertd tries again.
	Problems []Problem `json:"problems,omitempty"`
}
