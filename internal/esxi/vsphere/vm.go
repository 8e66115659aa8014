package vsphere

import (
	"strings"

	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/culvert-net/culvert/internal/esxi/file"
	"github.com/culvert-net/culvert/internal/esxi/state"
)

func (v *view) makeVM(vm mo.VirtualMachine, ports []state.Port) state.VM {
	power := vm.Runtime.PowerState
	m := state.VM{
		Name: unescapeName(vm.Name), Ref: vm.Self.Value, On: power != types.VirtualMachinePowerStatePoweredOff, Power: describePower(power),
		Networks: []string{}, VFs: []state.Use{},
	}
	if vm.Config == nil { // VirtualMachine.config is unset "if the virtual machine is not connected"
		m.Unreadable = string(vm.Runtime.ConnectionState)
		return m
	}
	m.ID, m.Template, m.MemoryMB = vm.Config.InstanceUuid, vm.Config.Template, int(vm.Config.Hardware.MemoryMB)
	m.MaxCards, m.MaxDevices = v.limits[vm.Config.Version].cards, v.limits[vm.Config.Version].devices
	if a := vm.Config.MemoryAllocation; a != nil && a.Reservation != nil {
		m.ReservedMB = int(*a.Reservation)
	}
	if l := vm.Config.MemoryReservationLockedToMax; l != nil {
		m.Locked = *l
	}
	for _, device := range vm.Config.Hardware.Device {
		switch d := device.(type) {
		case *types.VirtualPCIController:
			m.Controller = d.Key
		case *types.VirtualPCIPassthrough:
			m.Devices++
			if use, ok := makeDevice(d, ports); !ok {
				continue
			} else if use.Port != "" {
				m.VFs = append(m.VFs, use)
			} else {
				m.Others = append(m.Others, use)
			}
		case types.BaseVirtualEthernetCard:
			m.Cards++
			group := groupOf(d.GetVirtualEthernetCard())
			if group != "" {
				m.Networks = append(m.Networks, group)
			}
			if card, ok := d.(*types.VirtualSriovEthernetCard); ok {
				m.VFs = append(m.VFs, makeCard(card, group, ports))
			}
		}
	}
	return m
}

func describePower(p types.VirtualMachinePowerState) string {
	switch p {
	case types.VirtualMachinePowerStatePoweredOff:
		return "off"
	case types.VirtualMachinePowerStateSuspended:
		return state.Suspended
	}
	return "on"
}

func groupOf(card *types.VirtualEthernetCard) string {
	if b, ok := card.Backing.(*types.VirtualEthernetCardNetworkBackingInfo); ok {
		return b.DeviceName
	}
	return ""
}

// makeCard reads an SR-IOV network adapter. Its port is the physical function of the backing, with
// "Automatic-" before the ID where the host has chosen it. It has a VF once the virtual machine has
// started.
func makeCard(card *types.VirtualSriovEthernetCard, group string, ports []state.Port) state.Use {
	use := state.Use{As: file.NIC, PortGroup: group, MAC: strings.ToLower(card.MacAddress), Key: card.Key}
	b := card.SriovBacking
	if b == nil {
		return use
	}
	if b.PhysicalFunctionBacking != nil {
		id := strings.TrimPrefix(b.PhysicalFunctionBacking.Id, "Automatic-")
		for _, p := range ports {
			if p.PCI == id {
				use.Port = p.NIC
			}
		}
	}
	if b.VirtualFunctionBacking != nil {
		use.Address = b.VirtualFunctionBacking.Id
	}
	return use
}

// makeDevice reads a PCI device, and reports whether it is a certain one. It has no port if it is no VF
// that the host has now.
func makeDevice(d *types.VirtualPCIPassthrough, ports []state.Port) (state.Use, bool) {
	b, ok := d.Backing.(*types.VirtualPCIPassthroughDeviceBackingInfo)
	if !ok {
		return state.Use{}, false
	}
	for _, p := range ports {
		for _, f := range p.VFs {
			if f.PCI == b.Id {
				return state.Use{As: file.Device, Port: p.NIC, Address: b.Id, Key: d.Key}, true
			}
		}
	}
	return state.Use{As: file.Device, Address: b.Id, Key: d.Key}, true
}
