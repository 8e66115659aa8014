package vcsim

import (
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// The rules of the model. A rule returns the fault of a call that breaks it, or nil. The quotations
// are from the public reference of the vSphere Web Services API, as in govmomi's vim25/types.

// maxVFs follows report R2: the maximum of a port reads 0 while its pass-through is on. The API says
// of HostSriovInfo.maxVirtualFunctionSupported "Maximum number of SRIOV virtual functions supported on
// this device".
func (pf *PF) maxVFs() int {
	if pf.passNow {
		return 0
	}
	return pf.max
}

// knownDevice: HostPciPassthruConfig.id is "the name ID of this PCI, composed of bus:slot.function".
func (m *Model) knownDevice(id string) (*PF, types.BaseMethodFault) {
	for _, pf := range m.PFs {
		if pf.PCI == id {
			return pf, nil
		}
	}
	return nil, &types.HostConfigFault{}
}

// canHaveVFs: HostSriovInfo.sriovCapable is "Whether SRIOV is possible for this device", and
// maxVirtualFunctionSupported bounds HostSriovConfig.numVirtualFunction.
func (pf *PF) canHaveVFs(c *types.HostSriovConfig) types.BaseMethodFault {
	n := int(c.NumVirtualFunction)
	switch {
	case !c.SriovEnabled && n == 0:
		return nil
	case !pf.Capable, n > pf.maxVFs(), n < 0, c.SriovEnabled != (n > 0), c.PassthruEnabled && n > 0:
		return &types.HostConfigFault{}
	}
	return nil
}

// holdsNoVF: a VF that a running virtual machine has is not taken away. The API says of
// HostSriovInfo.sriovActive "(meaning enabled + rebooted)", and of HostPciPassthruConfig.applyNow "If
// the configuration can be applied immediately, it will be".
func (m *Model) holdsNoVF(pf *PF) types.BaseMethodFault {
	for _, ref := range m.host.Vm {
		vm := m.sim.Map().Get(ref).(*simulator.VirtualMachine)
		if vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOff && slices.ContainsFunc(pf.listFunctions(), func(id string) bool { return usesFunction(vm, id) }) {
			return &types.HostConfigFault{}
		}
	}
	return nil
}

// mayReboot: RebootHostRequestType.force is the "Flag to specify whether or not the host should be
// rebooted regardless of whether it is in maintenance mode".
func (m *Model) mayReboot(force bool) types.BaseMethodFault {
	if !force && !m.host.Runtime.InMaintenanceMode {
		return &types.InvalidState{}
	}
	return nil
}

// mayEnterMaintenance: HostSystem.EnterMaintenanceMode_Task waits until no virtual machine is on. "The
// task completes when the host successfully enters maintenance mode or the timeout expires, and in
// the latter case the task contains a Timeout fault"
// (EnterMaintenanceModeRequestType.timeout). The model's timeout expires at once.
func (m *Model) mayEnterMaintenance() types.BaseMethodFault {
	if m.host.Runtime.InMaintenanceMode {
		return &types.InvalidState{}
	}
	for _, ref := range m.host.Vm {
		if vm := m.sim.Map().Get(ref).(*simulator.VirtualMachine); vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn {
			return &types.Timedout{}
		}
	}
	return nil
}

// uplinksAreFree: HostVirtualSwitchBondBridge.nicDevice is "The list of keys of the physical network
// adapters to be bridged". An adapter that is not there is NotFound, one of another switch
// ResourceInUse (HostNetworkSystem.AddVirtualSwitch).
func (m *Model) uplinksAreFree(name string, bridge types.BaseHostVirtualSwitchBridge) types.BaseMethodFault {
	bond, ok := bridge.(*types.HostVirtualSwitchBondBridge)
	if !ok {
		return nil
	}
	for _, nic := range bond.NicDevice {
		if !slices.ContainsFunc(m.PFs, func(pf *PF) bool { return pf.NIC == nic }) {
			return &types.NotFound{}
		}
		for _, s := range m.network.NetworkInfo.Vswitch {
			other, ok := s.Spec.Bridge.(*types.HostVirtualSwitchBondBridge)
			if ok && s.Name != name && (slices.Contains(other.NicDevice, nic) || slices.Contains(other.NicDevice, "key-vim.host.PhysicalNic-"+nic)) {
				return &types.ResourceInUse{Name: nic}
			}
		}
	}
	return nil
}

// switchIsRight: HostVirtualSwitch.name: "Maximum length is 32 characters". HostVirtualSwitchSpec.mtu
// is "The maximum transmission unit (MTU) of the virtual switch in bytes"; a host has 1280 to 9000.
// HostVirtualSwitchSpec.numPorts: "The maximum value is 1024".
func switchIsRight(name string, spec types.HostVirtualSwitchSpec) types.BaseMethodFault {
	switch {
	case name == "" || len(name) > 32:
		return &types.InvalidArgument{InvalidProperty: "vswitchName"}
	case spec.Mtu != 0 && (spec.Mtu < 1280 || spec.Mtu > 9000):
		return &types.InvalidArgument{InvalidProperty: "spec.mtu"}
	case spec.NumPorts < 1 || spec.NumPorts > 1024:
		return &types.InvalidArgument{InvalidProperty: "spec.numPorts"}
	}
	return nil
}

// groupIsRight: HostPortGroupSpec.vlanId: 0, "A value from 1 to 4094", or "A value of 4095".
func groupIsRight(spec types.HostPortGroupSpec) types.BaseMethodFault {
	if spec.Name == "" || spec.VlanId < 0 || spec.VlanId > 4095 {
		return &types.InvalidArgument{InvalidProperty: "portgrp"}
	}
	return nil
}

// groupIsFree: HostNetworkSystem.RemovePortGroup and RemoveVirtualSwitch give ResourceInUse while
// network adapters use the port group.
func (m *Model) groupIsFree(name string) types.BaseMethodFault {
	for _, ref := range m.host.Vm {
		if vm := m.sim.Map().Get(ref).(*simulator.VirtualMachine); usesGroup(vm, name) {
			return &types.ResourceInUse{Name: name}
		}
	}
	return nil
}

// mayChangeDevices: an SR-IOV network adapter and a PCI device come and go only while the virtual
// machine is off. InvalidPowerState is thrown "if the power operation attempted could not be performed
// given the current power state of the virtual machine".
func mayChangeDevices(vm *simulator.VirtualMachine, spec types.VirtualMachineConfigSpec) types.BaseMethodFault {
	if len(spec.DeviceChange) > 0 && vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOff {
		return &types.InvalidPowerState{RequestedState: types.VirtualMachinePowerStatePoweredOff, ExistingState: vm.Runtime.PowerState}
	}
	return nil
}

// isUnchanged: VirtualMachineConfigSpec.changeVersion: "If specified, the changes are only applied if the
// current changeVersion matches the specified changeVersion." ConcurrentAccess is thrown "when an
// operation fails because another operation has modified the datastructure".
func isUnchanged(vm *simulator.VirtualMachine, spec types.VirtualMachineConfigSpec) types.BaseMethodFault {
	if spec.ChangeVersion != "" && spec.ChangeVersion != vm.Config.ChangeVersion {
		return &types.ConcurrentAccess{}
	}
	return nil
}

// The most devices of a virtual machine (VirtualPCIControllerOption.numEthernetCards and
// numPCIPassthroughDevices).
const (
	MaxCards   = 10
	MaxDevices = 16
)

// hasRoom: TooManyDevices is "Thrown when the number of virtual devices exceeds the maximum for a
// given controller".
func hasRoom(vm *simulator.VirtualMachine, spec types.VirtualMachineConfigSpec) types.BaseMethodFault {
	cards, devices := countDevices(vm.Config.Hardware.Device)
	for _, change := range spec.DeviceChange {
		c := change.GetVirtualDeviceConfigSpec()
		by := 1
		if c.Operation == types.VirtualDeviceConfigSpecOperationRemove {
			by = -1
		}
		moreCards, moreDevices := countDevices([]types.BaseVirtualDevice{c.Device})
		cards, devices = cards+by*moreCards, devices+by*moreDevices
	}
	if cards > MaxCards || devices > MaxDevices {
		return &types.TooManyDevices{}
	}
	return nil
}

// backingIsRight: InvalidDeviceBacking is thrown "if a device with an incompatible device backing is
// added or edited". Of an SR-IOV network adapter "the physical function backing may not be left unset"
// (VirtualSriovEthernetCardSriovBackingInfo.physicalFunctionBacking), and its network must be there.
// A PCI device must be one of the host; of VirtualPCIPassthroughDeviceBackingInfo.vendorId and systemId
// "You must use the vendor ID retrieved from the vSphere host".
func (m *Model) backingIsRight(device types.BaseVirtualDevice) types.BaseMethodFault {
	wrong := &types.InvalidDeviceBacking{}
	switch d := device.(type) {
	case *types.VirtualSriovEthernetCard:
		net, ok := d.Backing.(*types.VirtualEthernetCardNetworkBackingInfo)
		if !ok || !slices.ContainsFunc(m.network.NetworkInfo.Portgroup, func(g types.HostPortGroup) bool { return g.Spec.Name == net.DeviceName }) {
			return wrong
		}
		if d.SriovBacking == nil || d.SriovBacking.PhysicalFunctionBacking == nil {
			return wrong
		}
		pf, _ := m.knownDevice(d.SriovBacking.PhysicalFunctionBacking.Id)
		if pf == nil || pf.active == 0 || !isOfHost(*d.SriovBacking.PhysicalFunctionBacking, "1572") {
			return wrong
		}
	case *types.VirtualPCIPassthrough:
		b, ok := d.Backing.(*types.VirtualPCIPassthroughDeviceBackingInfo)
		if !ok || !slices.ContainsFunc(m.PFs, func(pf *PF) bool { return slices.Contains(pf.listFunctions(), b.Id) }) || !isOfHost(*b, "154c") {
			return wrong
		}
	}
	return nil
}

func isOfHost(b types.VirtualPCIPassthroughDeviceBackingInfo, device string) bool {
	return b.VendorId == -32634 && b.DeviceId == device && b.SystemId == systemID
}

// maySwitchOn: a virtual machine with a VF needs all of its memory reserved
// (VirtualMachineConfigSpec.memoryReservationLockedToMax or memoryAllocation), and a free VF: "When a
// virtual function is yet to be assigned to the device (e.g. if the VM has not been powered on yet),
// the virtual function backing will be unset". No virtual machine is started in maintenance mode.
func (m *Model) maySwitchOn(vm *simulator.VirtualMachine) types.BaseMethodFault {
	if m.host.Runtime.InMaintenanceMode {
		return &types.InvalidState{}
	}
	cards, devices := functionsOf(vm)
	if len(cards)+len(devices) == 0 {
		return nil
	}
	reserved := vm.Config.MemoryAllocation.Reservation
	locked := vm.Config.MemoryReservationLockedToMax
	if (locked == nil || !*locked) && (reserved == nil || *reserved < int64(vm.Config.Hardware.MemoryMB)) {
		return &types.InvalidVmConfig{Property: "memoryAllocation"}
	}
	for _, d := range devices {
		if id := d.Backing.(*types.VirtualPCIPassthroughDeviceBackingInfo).Id; m.isTaken(vm, id) || !slices.ContainsFunc(m.PFs, func(pf *PF) bool { return slices.Contains(pf.listFunctions(), id) }) {
			return &types.InsufficientResourcesFault{}
		}
	}
	for _, card := range cards {
		if m.freeFunction(vm, card) == "" {
			return &types.InsufficientResourcesFault{}
		}
	}
	return nil
}
