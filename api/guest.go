package api

import "github.com/culvert-net/culvert/vf"

// Methods about guests, which are virtual machines of libvirt.
const (
	// MethodGuestXML gives a guest a VF: GuestXMLRequest in, GuestXML out.
	MethodGuestXML = "vm.xml"
	// MethodGuestDetach takes VFs back from a guest: GuestDetachRequest in,
	// GuestDetached out.
	MethodGuestDetach = "vm.detach"
	// MethodGuestStart asks whether a guest may start: GuestStartRequest in,
	// GuestStartResponse out. Nothing is changed.
	MethodGuestStart = "vm.start"
)

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
}

// GuestDetachRequest names a guest by its name or UUID, and one of its devices;
// an empty Device is all of them.
type GuestDetachRequest struct {
	Guest  string `json:"guest"`
	Device string `json:"device,omitempty"`
}

// GuestDetached says what became of the VFs.
type GuestDetached struct {
	VFs []GuestVF `json:"vfs"`
}

// GuestVF is a VF that a guest had.
type GuestVF struct {
	VF     vf.PCIAddr `json:"vf"`
	Guest  vf.Owner   `json:"guest"`
	Phase  string     `json:"phase"`            // free, or quarantined
	Reason string     `json:"reason,omitempty"` // of a quarantine
}

// GuestStartRequest is the definition of a guest that libvirt is about to start.
type GuestStartRequest struct {
	Definition []byte `json:"definition"`
}

// GuestStartResponse says why the guest must not start: it names VFs that others
// have. Empty when it may.
type GuestStartResponse struct {
	Refused string `json:"refused,omitempty"`
}
