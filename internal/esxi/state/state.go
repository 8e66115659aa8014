// Package state has the values that culvert-esxi reads from an ESXi host: its ports with their VFs,
// its virtual switches, and its virtual machines with the VFs that they have.
//
// Package vsphere fills them in; plan and status read them. They are also the JSON of
// culvert esxi status -o json.
package state

import (
	"slices"
	"time"
)

// Host is one ESXi host as it was seen.
type Host struct {
	Name        string      `json:"name"`
	UUID        string      `json:"uuid"` // of the hardware
	Product     string      `json:"product"`
	Connected   bool        `json:"connected"`
	Maintenance bool        `json:"maintenanceMode"`
	Boot        time.Time   `json:"bootTime"`
	AppliesLive bool        `json:"appliesPassthroughWithoutReboot"` // HostCapability.deviceRebindWithoutRebootSupported
	Ports       []Port      `json:"ports"`
	Switches    []Switch    `json:"switches"`
	Distributed []Switch    `json:"distributedSwitches,omitempty"` // their uplinks on this host
	PortGroups  []PortGroup `json:"portGroups"`
	VMs         []VM        `json:"vms"`
}

// Port is a physical port. Requested is configured, Present is in force.
type Port struct {
	NIC         string `json:"nic"`
	PCI         string `json:"pci"`
	Driver      string `json:"driver"`
	Model       string `json:"model,omitempty"`
	MAC         string `json:"mac"`
	Mbps        int    `json:"mbps"` // 0: no link
	Capable     bool   `json:"sriovCapable"`
	Enabled     bool   `json:"sriovEnabled"`
	Active      bool   `json:"sriovActive"`
	Requested   int    `json:"vfsRequested"`
	Present     int    `json:"vfsPresent"`
	Max         int    `json:"vfsMax"` // 0 also while pass-through is on
	Passthrough bool   `json:"passthroughEnabled"`
	PassActive  bool   `json:"passthroughActive"`
	VFs         []VF   `json:"vfs"`

	// SystemID, DeviceID and VendorID name the port in the backing of a network adapter.
	SystemID string `json:"-"`
	DeviceID int16  `json:"-"`
	VendorID int16  `json:"-"`
}

// WantedVFs returns the number of VFs that the port is configured to have.
func (p Port) WantedVFs() int {
	if !p.Enabled {
		return 0
	}
	return p.Requested
}

// PresentVFs returns the number of VFs that the port has now.
func (p Port) PresentVFs() int {
	if !p.Active {
		return 0
	}
	return p.Present
}

// IsPending reports whether the configuration of the port is not in force yet.
func (p Port) IsPending() bool {
	return p.WantedVFs() != p.PresentVFs() || p.Passthrough != p.PassActive
}

// VF is a VF that is a PCI device of the host.
type VF struct {
	PCI      string `json:"pci"`
	SystemID string `json:"-"`
	DeviceID int16  `json:"-"`
	VendorID int16  `json:"-"`
}

// Security has settings of a switch or port group. nil: inherited.
type Security struct {
	Promiscuous     *bool `json:"promiscuous,omitempty"`
	MACChanges      *bool `json:"macChanges,omitempty"`
	ForgedTransmits *bool `json:"forgedTransmits,omitempty"`
}

// Switch is a standard virtual switch.
type Switch struct {
	Name       string   `json:"name"`
	Uplinks    []string `json:"uplinks"`
	MTU        int      `json:"mtu"`
	Security   Security `json:"security"`
	PortGroups []string `json:"portGroups"`
}

// PortGroup is a port group of a standard virtual switch.
type PortGroup struct {
	Name     string   `json:"name"`
	Switch   string   `json:"switch"`
	VLAN     int      `json:"vlan"`
	Security Security `json:"security"`
	Kernel   []string `json:"kernelAdapters,omitempty"` // such as vmk0
}

// VM is a virtual machine of the host.
type VM struct {
	Name       string   `json:"name"`
	ID         string   `json:"uuid"` // config.instanceUuid
	Ref        string   `json:"-"`    // the managed object
	On         bool     `json:"on"`   // or suspended
	Power      string   `json:"power"`
	MemoryMB   int      `json:"memoryMB"`
	ReservedMB int      `json:"reservedMB"`
	Locked     bool     `json:"reservationLockedToMax"`
	Networks   []string `json:"portGroups"` // of all network adapters
	Cards      int      `json:"networkAdapters"`
	VFs        []Use    `json:"vfs"`
	Devices    int      `json:"pciDevices"`
	Others     []Use    `json:"otherDevices,omitempty"` // PCI devices that are no VF of the host now; their ports are not known
	Template   bool     `json:"template,omitempty"`
	Unreadable string   `json:"unreadable,omitempty"` // why nothing but its name and power is known: disconnected, inaccessible

	Controller int32 `json:"-"` // key of the PCI controller
	MaxCards   int   `json:"-"` // 0: not known
	MaxDevices int   `json:"-"`
}

// Uses returns the VFs and the other PCI devices.
func (v VM) Uses() []Use { return slices.Concat(v.VFs, v.Others) }

// Suspended is the power of a virtual machine that goes on later where it was.
const Suspended = "suspended"

// Memory is the reservation of a virtual machine.
type Memory struct {
	Locked bool `json:"locked"` // all of it, also when the memory grows
	MB     int  `json:"mb"`
}

// Memory returns the reservation.
func (v VM) Memory() Memory { return Memory{v.Locked, v.ReservedMB} }

// Use is a VF that a virtual machine has, in one of the API's two ways.
type Use struct {
	As        string `json:"as"` // file.NIC or file.Device
	Port      string `json:"port"`
	PortGroup string `json:"portGroup,omitempty"`
	MAC       string `json:"mac,omitempty"`
	Address   string `json:"pci,omitempty"` // of the VF; empty while a network adapter has none
	Key       int32  `json:"key"`           // of the device in the virtual machine
}

// FindPort returns the port of a name, or nil.
func (h *Host) FindPort(nic string) *Port {
	i := slices.IndexFunc(h.Ports, func(p Port) bool { return p.NIC == nic })
	if i < 0 {
		return nil
	}
	return &h.Ports[i]
}

// FindSwitch returns the switch of a name, or nil.
func (h *Host) FindSwitch(name string) *Switch {
	i := slices.IndexFunc(h.Switches, func(s Switch) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &h.Switches[i]
}

// FindGroup returns the port group of a name, or nil.
func (h *Host) FindGroup(name string) *PortGroup {
	i := slices.IndexFunc(h.PortGroups, func(g PortGroup) bool { return g.Name == name })
	if i < 0 {
		return nil
	}
	return &h.PortGroups[i]
}

// FindVM returns the virtual machine of an ID, or nil.
func (h *Host) FindVM(id string) *VM {
	i := slices.IndexFunc(h.VMs, func(v VM) bool { return v.ID == id })
	if i < 0 {
		return nil
	}
	return &h.VMs[i]
}

// Running returns the names of the virtual machines that are on. One that is suspended is not in the way
// of maintenance mode.
func (h *Host) Running() []string {
	var on []string
	for _, vm := range h.VMs {
		if vm.On && vm.Power != Suspended {
			on = append(on, vm.Name)
		}
	}
	return on
}

// Holder returns the first virtual machine that has the VF of a PCI address, or nil. Several may have it
// while they are off.
func (h *Host) Holder(address string) (*VM, *Use) {
	for i := range h.VMs {
		for j := range h.VMs[i].VFs {
			if u := &h.VMs[i].VFs[j]; u.Address == address {
				return &h.VMs[i], u
			}
		}
	}
	return nil, nil
}
