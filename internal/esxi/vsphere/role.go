package vsphere

// Privileges are those that a user needs for all actions, by their IDs in the API. The first three are
// enough to observe.
var Privileges = []string{
	"System.Anonymous",
	"System.Read",
	"System.View",
	"Host.Config.Maintenance",               // maintenance mode and reboot
	"Host.Config.Network",                   // virtual switches and port groups
	"Host.Config.PciPassthru",               // the VFs of ports
	"Network.Assign",                        // VirtualMachineConfigSpec.deviceChange: the backing of a network adapter
	"VirtualMachine.Config.AddRemoveDevice", // VirtualMachineConfigSpec.deviceChange
	"VirtualMachine.Config.EditDevice",      // the settings of the new device
	"VirtualMachine.Config.Resource",        // memoryAllocation and memoryReservationLockedToMax
	"VirtualMachine.Interact.DeviceConnection",
}
