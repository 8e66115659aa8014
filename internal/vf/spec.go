package vf

import "net/netip"

// Drivers that Culvert itself names. Which netdevice driver a VF has is the
// kernel's choice: DriverDefault asks for it.
const (
	DriverDefault = ""
	DriverVFIO    = "vfio-pci"
)

// Spec is the wanted settings of a VF. A nil pointer leaves that setting at its baseline.
type Spec struct {
	MAC       *MAC       `json:"mac,omitempty"`
	VLAN      *VLAN      `json:"vlan,omitempty"`
	SpoofChk  *bool      `json:"spoofchk,omitempty"`
	Trust     *bool      `json:"trust,omitempty"`
	LinkState *LinkState `json:"link_state,omitempty"`
	MinTxRate *uint32    `json:"min_tx_rate,omitempty"` // Mb/s
	MaxTxRate *uint32    `json:"max_tx_rate,omitempty"` // Mb/s
	MTU       *int       `json:"mtu,omitempty"`         // bytes
	Guard     GuardMode  `json:"guard,omitempty"`
	// GuardAllow are kinds of frame that the guard lets pass, each once and in order.
	GuardAllow []GuardKey `json:"guardAllow,omitempty"`

	// Driver is DriverDefault for a netdevice or DriverVFIO.
	Driver string `json:"driver,omitempty"`

	// The following fields are for a netdevice only.
	Interface string    `json:"interface,omitempty"` // name in the pod
	Addresses []Address `json:"addresses,omitempty"`
	Routes    []Route   `json:"routes,omitempty"`
	// GuardAddresses are the addresses that the guard pins beside Addresses: all addresses of the
	// bond of which the VF is a member.
	GuardAddresses []netip.Addr `json:"guardAddresses,omitempty"`
}

// Address is one address of a pod, with the gateway that its network names
// for it (the zero value when it names none).
type Address struct {
	Prefix  netip.Prefix `json:"prefix"` // host bits kept
	Gateway netip.Addr   `json:"gateway,omitzero"`
}

// Route is one route of a pod. Gateway is the zero value for a route that is
// on the link.
type Route struct {
	Dst      netip.Prefix `json:"dst"`
	Gateway  netip.Addr   `json:"gateway,omitzero"`
	MTU      int          `json:"mtu,omitempty"`
	AdvMSS   int          `json:"advmss,omitempty"`
	Priority int          `json:"priority,omitempty"`
	// Table is 0 for the main table.
	Table int `json:"table,omitempty"`
	// Scope is one of rtnetlink(7), rtm_scope; 0 leaves it to the kernel: link without a
	// gateway, else universe.
	Scope int `json:"scope,omitempty"`
	// OnLink: the gateway is on the link, though no address of the interface says so.
	OnLink bool `json:"onLink,omitempty"`
}

// Switch returns a pointer to the field of s that holds a setting of Switches. It returns nil for
// a switch that cannot be requested, and for another setting.
func (s *Spec) Switch(name Setting) **bool {
	switch name {
	case SetSpoofChk:
		return &s.SpoofChk
	case SetTrust:
		return &s.Trust
	}
	return nil
}

// Abilities lists the settings that s asks for, which the PF's driver must
// have.
func (s Spec) Abilities() []Setting {
	var need []Setting
	add := func(wanted bool, name Setting) {
		if wanted {
			need = append(need, name)
		}
	}
	add(s.MAC != nil, SetMAC)
	add(s.VLAN != nil && s.VLAN.Proto != Dot1AD, SetVLAN)
	add(s.VLAN != nil && s.VLAN.Proto == Dot1AD, SetVLANProto)
	for _, name := range Switches() {
		on := s.Switch(name)
		add(on != nil && *on != nil, name)
	}
	add(s.LinkState != nil, SetLinkState)
	add(s.MinTxRate != nil && *s.MinTxRate != 0, SetMinTxRate)
	add(s.MaxTxRate != nil && *s.MaxTxRate != 0, SetMaxTxRate)
	return need
}
