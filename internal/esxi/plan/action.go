// Package plan compares the file with the host, and lists the changes, whom each of them hurts, and the
// reasons for which the host cannot be so. It changes nothing.
//
// The file, what Culvert has made before and the state of the host go in; a Plan comes out. Package
// apply and the commands of culvert-esxi call it.
package plan

import (
	"github.com/culvert-net/culvert/internal/esxi/file"
	"github.com/culvert-net/culvert/internal/esxi/state"
)

// An action is one change of the host: one of the types below. Package vsphere does it, by one call
// of the vSphere Web Services API, which the comment names.
type (
	// SetPorts is HostPciPassthruSystem.UpdatePassthruConfig.
	SetPorts struct{ Ports []PortSetting }
	// AddSwitch is HostNetworkSystem.AddVirtualSwitch.
	AddSwitch struct{ Switch file.Switch }
	// UpdateSwitch is HostNetworkSystem.UpdateVirtualSwitch.
	UpdateSwitch struct{ Switch file.Switch }
	// RemoveSwitch is HostNetworkSystem.RemoveVirtualSwitch.
	RemoveSwitch struct{ Name string }
	// AddGroup is HostNetworkSystem.AddPortGroup.
	AddGroup struct {
		Switch string
		Group  file.PortGroup
	}
	// UpdateGroup is HostNetworkSystem.UpdatePortGroup.
	UpdateGroup struct {
		Switch string
		Group  file.PortGroup
	}
	// RemoveGroup is HostNetworkSystem.RemovePortGroup.
	RemoveGroup struct{ Name string }
	// ChangeVM is VirtualMachine.ReconfigVM_Task.
	ChangeVM struct {
		VM     state.VM
		Memory *state.Memory // nil: unchanged
		Remove []state.Use
		Add    []NewUse
	}
	// EnterMaintenance is HostSystem.EnterMaintenanceMode_Task.
	EnterMaintenance struct{}
	// Reboot is HostSystem.RebootHost_Task.
	Reboot struct{}
	// ExitMaintenance is HostSystem.ExitMaintenanceMode_Task.
	ExitMaintenance struct{}
)

// PortSetting is the configuration of one port. VFs is 0 for a port without SR-IOV.
type PortSetting struct {
	NIC, PCI    string
	VFs         int
	Passthrough bool
}

// NewUse is a VF that a virtual machine gets.
type NewUse struct {
	file.VF
	PF     state.Port
	Chosen state.VF // of a device
}
