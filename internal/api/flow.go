package api

import "github.com/culvert-net/culvert/internal/vf"

// VFFlow is what a VF received and sent during a time. Rx is towards the VF's owner.
type VFFlow struct {
	Name    string     `json:"name"` // PF#index
	PF      string     `json:"pf"`
	PCI     vf.PCIAddr `json:"pci"`
	Pool    string     `json:"pool,omitempty"`
	Owner   *vf.Owner  `json:"owner,omitempty"`
	UsedBy  string     `json:"usedBy,omitempty"`
	Network string     `json:"network,omitempty"`
	Seconds float64    `json:"seconds"`
	// Rx and Tx are nil if the VF has no counters, or if its netdevice was made anew meanwhile.
	Rx *Flow `json:"rx,omitempty"`
	Tx *Flow `json:"tx,omitempty"`
}

// Flow is one direction of a VF's traffic, for each second. The bits are those of frames without
// their checksums.
type Flow struct {
	Bits    float64 `json:"bits"`
	Packets float64 `json:"packets"`
	Dropped float64 `json:"dropped"`
	Errors  float64 `json:"errors"`
}
