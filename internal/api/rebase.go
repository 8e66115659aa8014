package api

import "github.com/culvert-net/culvert/internal/vf"

// RebaseRequest is the parameter of MethodRebase.
type RebaseRequest struct {
	VF vf.PCIAddr `json:"vf"`
	// Accept has the differences that an administrator has seen and accepts. If it is nil, culvertd
	// only returns the present differences.
	Accept []vf.Difference `json:"accept,omitempty"`
}

// Rebased is the answer to MethodRebase: how the VF differs from its baseline, or how the new
// baseline differs from the old one.
type Rebased struct {
	Differences []vf.Difference `json:"differences,omitempty"`
}
