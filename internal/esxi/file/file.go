// Package file reads the file that says how an ESXi host shall be: which physical ports have VFs,
// which virtual switches and port groups there are, and which virtual machines have a VF.
//
// Text goes in. A Spec comes out, or all mistakes at once, each with its line, its field, the value
// and what would work. The commands of culvert-esxi call it. It reads no credentials: a file that
// people share holds none.
package file

// Spec is the wanted state of one ESXi host.
type Spec struct {
	Server     string // the ESXi host or the vCenter: a name or address, with a port if that is not 443
	Thumbprint string // SHA-256 of the server's certificate, in upper case without colons; empty: verify it
	CAFile     string // certificates (PEM) that verify the server's; empty: those of this system
	Host       string // the host's name in the vCenter's inventory; empty where the server is the host
	Ports      []Port
	Switches   []Switch
	VMs        []VM
}

// Port is a physical port.
type Port struct {
	NIC string // such as vmnic2
	VFs int
	// PassthroughOff says that the pass-through of the whole port may be switched off.
	PassthroughOff bool
}

// Security has settings of a virtual switch or port group. A nil setting is left to the host: the
// default of a switch, and the switch's setting for a port group.
type Security struct {
	Promiscuous, MACChanges, ForgedTransmits *bool
}

// Switch is a standard virtual switch.
type Switch struct {
	Name       string
	Uplinks    []string // names of physical ports, in their order
	MTU        int
	Security   Security
	PortGroups []PortGroup
}

// PortGroup is a port group of a standard virtual switch.
type PortGroup struct {
	Name     string
	VLAN     int // 0: none; 4095: the guest tags
	Security Security
}

// VM is a virtual machine that the host has already.
type VM struct {
	Name string
	VFs  []VF
}

// The two ways in which the API gives a VF to a virtual machine.
const (
	// NIC is VirtualSriovEthernetCard: a network adapter on a port group. The host chooses the VF as
	// the virtual machine starts.
	NIC = "nic"
	// Device is VirtualPCIPassthrough: a certain VF as a PCI device.
	Device = "device"
)

// VF is a VF that a virtual machine has.
type VF struct {
	As        string // NIC or Device
	Port      string // the physical port
	PortGroup string // of a NIC
	MAC       string // of a NIC; empty: the host chooses
	Address   string // PCI address of a Device; empty: any free VF of the port
}
