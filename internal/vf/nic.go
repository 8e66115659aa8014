package vf

import (
	"slices"
	"strings"
)

// NIC is a network function on the PCI bus that is no VF of this host, with the answer whether it
// can have VFs. It serves to explain a host to people: Culvert itself works with PFs.
type NIC struct {
	PCI    PCIAddr `json:"pci"`
	Name   string  `json:"name,omitempty"` // netdevice; empty when it has none in the host's netns
	Vendor string  `json:"vendor"`         // four hexadecimal digits
	Device string  `json:"device"`
	Driver string  `json:"driver,omitempty"` // empty: none bound
	SRIOV  SRIOV   `json:"sriov"`
	// TotalVFs is how many VFs the NIC can have, NumVFs how many it has.
	TotalVFs int `json:"totalVFs"`
	NumVFs   int `json:"numVFs"`
	// Why is a sentence for people: why the NIC can have no VFs, and what would help. It is empty
	// if SRIOV is yes and a driver is bound.
	Why string `json:"why,omitempty"`
}

// SRIOV says whether a NIC can have VFs.
type SRIOV string

// The answers.
const (
	SRIOVYes SRIOV = "yes"
	// SRIOVOff: the device has SR-IOV, and its firmware, the machine's firmware
	// or its driver allows no VF.
	SRIOVOff SRIOV = "off"
	// SRIOVElsewhere: the VFs of this card belong to another of its functions.
	SRIOVElsewhere SRIOV = "elsewhere"
	// SRIOVVirtual: a NIC that a hypervisor emulates, or a VF that it passes through.
	SRIOVVirtual SRIOV = "virtual"
	// SRIOVNone: the device has no SR-IOV.
	SRIOVNone SRIOV = "no"
	// SRIOVUnknown: its files could not be read.
	SRIOVUnknown SRIOV = "unknown"
)

// IsOpenStack reports whether a machine is a virtual machine of OpenStack, by its vendor, product and
// asset tag in the DMI tables. Public clouds on OpenStack have tags of their own (cloud-init,
// DataSourceOpenStack).
func IsOpenStack(vendor, product, tag string) bool {
	for _, value := range []string{vendor, product, tag} {
		if strings.Contains(value, "OpenStack") {
			return true
		}
	}
	return slices.Contains([]string{"OpenTelekomCloud", "SAP CCloud VM", "HUAWEICLOUD"}, tag)
}
