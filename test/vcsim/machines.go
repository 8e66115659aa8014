package vcsim

import (
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// functionsOf returns the devices of a virtual machine that have a VF, in the API's two ways.
func functionsOf(vm *simulator.VirtualMachine) (cards []*types.VirtualSriovEthernetCard, devices []*types.VirtualPCIPassthrough) {
	for _, d := range vm.Config.Hardware.Device {
		switch d := d.(type) {
		case *types.VirtualSriovEthernetCard:
			cards = append(cards, d)
		case *types.VirtualPCIPassthrough:
			devices = append(devices, d)
		}
	}
	return cards, devices
}

// usesFunction reports whether a virtual machine has the VF of a PCI address.
func usesFunction(vm *simulator.VirtualMachine, id string) bool {
	cards, devices := functionsOf(vm)
	return slices.ContainsFunc(devices, func(d *types.VirtualPCIPassthrough) bool {
		return d.Backing.(*types.VirtualPCIPassthroughDeviceBackingInfo).Id == id
	}) || slices.ContainsFunc(cards, func(c *types.VirtualSriovEthernetCard) bool {
		return c.SriovBacking.VirtualFunctionBacking != nil && c.SriovBacking.VirtualFunctionBacking.Id == id
	})
}

func usesGroup(vm *simulator.VirtualMachine, name string) bool {
	return slices.ContainsFunc(vm.Config.Hardware.Device, func(d types.BaseVirtualDevice) bool {
		b, ok := d.GetVirtualDevice().Backing.(*types.VirtualEthernetCardNetworkBackingInfo)
		return ok && b.DeviceName == name
	})
}

func countDevices(all []types.BaseVirtualDevice) (cards, devices int) {
	for _, d := range all {
		switch d.(type) {
		case types.BaseVirtualEthernetCard:
			cards++
		case *types.VirtualPCIPassthrough:
			devices++
		}
	}
	return cards, devices
}

// isTaken reports whether another virtual machine that is on has the VF.
func (m *Model) isTaken(but *simulator.VirtualMachine, id string) bool {
	return slices.ContainsFunc(m.host.Vm, func(ref types.ManagedObjectReference) bool {
		vm := m.sim.Map().Get(ref).(*simulator.VirtualMachine)
		return vm != but && vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn && usesFunction(vm, id)
	})
}

// freeFunction returns a VF of a network adapter's port that no virtual machine has, or "".
func (m *Model) freeFunction(vm *simulator.VirtualMachine, card *types.VirtualSriovEthernetCard) string {
	pf, _ := m.knownDevice(card.SriovBacking.PhysicalFunctionBacking.Id)
	if pf == nil {
		return ""
	}
	for _, id := range pf.listFunctions() {
		if !m.isTaken(vm, id) && !usesFunction(vm, id) {
			return id
		}
	}
	return ""
}

// switchPower switches a virtual machine on, which gives its network adapters their VFs, or off.
func (m *Model) switchPower(vm *simulator.VirtualMachine, on bool) types.BaseMethodFault {
	cards, _ := functionsOf(vm)
	if !on {
		vm.Runtime.PowerState = types.VirtualMachinePowerStatePoweredOff
		for _, c := range cards {
			c.SriovBacking.VirtualFunctionBacking = nil
		}
		return nil
	}
	if fault := m.maySwitchOn(vm); fault != nil {
		return fault
	}
	vm.Runtime.PowerState = types.VirtualMachinePowerStatePoweredOn
	for _, c := range cards {
		c.SriovBacking.VirtualFunctionBacking = &types.VirtualPCIPassthroughDeviceBackingInfo{Id: m.freeFunction(vm, c)}
	}
	return nil
}
