package vf

// NIC is a network function on the PCI bus that is no VF of this host, and
// whether it can be cut into VFs. It is there to explain a host to people:
// what Culvert works with is a PF.
type NIC struct {
	PCI    PCIAddr `json:"pci"`
	Name   string  `json:"name,omitempty"` // netdevice; empty when it has none in the host's netns
	Vendor string  `json:"vendor"`         // four hexadecimal digits
	Device string  `json:"device"`
	Driver string  `json:"driver,omitempty"` // empty: none bound
	SRIOV  SRIOV   `json:"sriov"`
	// TotalVFs is how many VFs it can have, NumVFs how many it has.
	TotalVFs int `json:"totalVFs"`
	NumVFs   int `json:"numVFs"`
	// Why says in a sentence for people why it has no VFs and what would do;
	// empty when SRIOV is yes and a driver is bound.
	Why string `json:"why,omitempty"`
}

// SRIOV says whether a NIC can be cut into VFs.
type SRIOV string

// The answers.
const (
	SRIOVYes SRIOV = "yes"
	// SRIOVOff: the device has SR-IOV, and its firmware, the machine's firmware
	// or its driver allows no VF.
	SRIOVOff SRIOV = "off"
	// SRIOVElsewhere: the VFs of this card hang on another function of it.
	SRIOVElsewhere SRIOV = "elsewhere"
	// SRIOVVirtual: a NIC that a hypervisor makes, or a VF that one hands over.
	SRIOVVirtual SRIOV = "virtual"
	// SRIOVNone: the device does not have it.
	SRIOVNone SRIOV = "no"
	// SRIOVUnknown: its files could not be read.
	SRIOVUnknown SRIOV = "unknown"
)
