package api

import "github.com/culvert-net/culvert/vf"

// RebaseRequest is the parameter of MethodRebase.
type RebaseRequest struct {
	VF vf.PCIAddr `json:"vf"`
	// Accept are the differences that an administrator has seen and accepts; nil only asks
	// which there are.
	Accept []vf.Difference `json:"accept,omitempty"`
}

// Rebased is the answer to MethodRebase: how the VF differs from its baseline, or what the
// new baseline has otherwise than the old one.
type Rebased struct {
	Differences []vf.Difference `json:"differences,omitempty"`
}
