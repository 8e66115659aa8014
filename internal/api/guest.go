package api

import "github.com/culvert-net/culvert/internal/vf"

// GuestXMLRequest asks for a VF of Pool for the guest whose definition (libvirt's
// XML) comes with it, as the device that Device names. A guest that has that
// device already, with the same pool and settings, gets the same answer again.
type GuestXMLRequest struct {
	Definition string `json:"definition"`
	Device     string `json:"device"`
	Pool       string `json:"pool"`
	// Way is one of interface, hostdev and network.
	Way string `json:"way"`
	// Failover is the alias of the guest's virtio interface for which the VF is
	// the fast path.
	Failover string `json:"failover,omitempty"`
	// Apart is the name of another device of the guest, on whose PF the VF must not
	// be: two VFs of one bond.
	Apart string `json:"apart,omitempty"`
	// OS is the guest's operating system, windows, linux or empty for any. Windows has needs of its own,
	// which are in the Notes of the answer.
	OS string `json:"os,omitempty"`
	// Spec has the settings that the PF holds for the VF, and no others.
	Spec vf.Spec `json:"spec"`
}

// GuestXML is libvirt's XML for a VF that a guest got.
type GuestXML struct {
	Guest vf.Owner   `json:"guest"`
	VF    vf.PCIAddr `json:"vf"`
	// Definition is the guest's with the device in it, Device the device alone,
	// Network the network that a device of the way network names.
	Definition string `json:"definition"`
	Device     string `json:"device"`
	Network    string `json:"network,omitempty"`
	// Notes say what the guest needs besides, for a person to read.
	Notes []string `json:"notes,omitempty"`
}

// GuestDetachRequest names a guest by its name or UUID, and one of its devices;
// an empty Device is all of them.
type GuestDetachRequest struct {
	Guest  string `json:"guest"`
	Device string `json:"device,omitempty"`
}

// GuestDetached has the resulting states of the VFs, and the devices that were removed from the
// guest or its definition. A guest that is off has devices without VFs: it gave these back as it
// stopped.
type GuestDetached struct {
	VFs     []GuestVF `json:"vfs"`
	Devices []string  `json:"devices,omitempty"`
}

// GuestVF is a VF that a guest had.
type GuestVF struct {
	VF     vf.PCIAddr `json:"vf"`
	Guest  vf.Owner   `json:"guest"`
	Phase  string     `json:"phase"`            // free, or quarantined
	Reason string     `json:"reason,omitempty"` // of a quarantine
}

// GuestReport is the standard input of a hook of libvirt: the definition of a guest, or a network
// and a port of it.
type GuestReport struct {
	XML []byte `json:"xml"`
}

// GuestAnswer has the reason why the guest must not start, or must not have the device. It is empty
// if the guest may.
type GuestAnswer struct {
	Refused string `json:"refused,omitempty"`
}

// GuestAttached is the result of an attach: each device, and where it is.
type GuestAttached struct {
	Guest   string        `json:"guest"`
	Devices []GuestDevice `json:"devices"`
}

// GuestMigrated is the result of a migration: the host that has the guest now.
type GuestMigrated struct {
	Guest string `json:"guest"`
	Host  string `json:"host"`
	// Transport is how the memory of the running guest was transferred: ssh, tls, or tcp, which is
	// not encrypted. It is empty if the guest was off, or had arrived before.
	Transport string `json:"transport,omitempty"`
}

// GuestDevice is one VF of a guest.
type GuestDevice struct {
	Device string     `json:"device"`
	VF     vf.PCIAddr `json:"vf"`
	Live   bool       `json:"live"`   // in the running guest
	Config bool       `json:"config"` // in its definition
}
