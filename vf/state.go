package vf

import (
	"net/netip"
)

// State is what the kernel says of one VF at one moment. It is never edited.
type State struct {
	ID         ID      `json:"id"`
	PCI        PCIAddr `json:"pci"`
	Vendor     string  `json:"vendor"`     // four hexadecimal digits, e.g. 8086
	Device     string  `json:"device"`     // four hexadecimal digits, e.g. 10ca
	Driver     string  `json:"driver"`     // empty: none bound
	NUMA       int     `json:"numa"`       // -1: unknown or none
	IOMMUGroup int     `json:"iommuGroup"` // -1: none
	// ACPIIndex is the firmware's own number of the function, 0 where it gave
	// none (Documentation/ABI/testing/sysfs-bus-pci, acpi_index).
	ACPIIndex uint32 `json:"acpiIndex,omitempty"`

	Admin Admin `json:"admin"`
	// Link is the VF's netdevice, nil when there is none where we looked:
	// it is in another netns, or the driver makes none.
	Link *Link `json:"link,omitempty"`
}

// Link is a netdevice as one netns sees it.
type Link struct {
	Netns    string         `json:"netns,omitempty"` // path; empty: the host's
	Index    int            `json:"index"`
	Name     string         `json:"name"`
	MAC      MAC            `json:"mac"`
	MTU      int            `json:"mtu"`
	Up       bool           `json:"up"`
	Carrier  bool           `json:"carrier"`
	Promisc  bool           `json:"promisc"`
	AllMulti bool           `json:"allmulti"`
	Addrs    []netip.Prefix `json:"addrs,omitempty"` // without IPv6 link-local
	Routes   []Route        `json:"routes,omitempty"`
	// MoreAddrs and MoreRoutes count those that the kernel has beyond what Addrs and
	// Routes list, which are bounded.
	MoreAddrs  int `json:"moreAddrs,omitempty"`
	MoreRoutes int `json:"moreRoutes,omitempty"`
	// Attributes are the other settings that the kernel reports; all of them only when one
	// VF is read and its netdevice is on the host.
	Attributes Attributes `json:"-"`
}

// PF is what the kernel says of a Physical Function and its VFs.
type PF struct {
	ID   PFID    `json:"id"`
	PCI  PCIAddr `json:"pci"`
	Name string  `json:"name"` // netdevice; empty when it has none
	// Port is the netdevice that has the link (carrier, speed, MTU, admin state)
	// of a PF that has none of its own: on Chelsio cards VFs hang on functions
	// 0 to 3 and the ports on function 4. Otherwise empty.
	Port       string `json:"port,omitempty"`
	Vendor     string `json:"vendor"`
	Device     string `json:"device"`
	Driver     string `json:"driver"`
	NUMA       int    `json:"numa"`
	IOMMUGroup int    `json:"iommuGroup"`
	// MAC and Addrs are the netdevice's at the moment, or the port's.
	MAC   MAC            `json:"mac,omitzero"`
	Addrs []netip.Prefix `json:"addrs,omitempty"`
	// OwnAddrs are those of Addrs that Culvert added; the kernel keeps the mark.
	OwnAddrs  []netip.Prefix `json:"ownAddrs,omitempty"`
	MTU       int            `json:"mtu"`
	MaxMTU    int            `json:"maxMTU"` // 0: unknown
	Up        bool           `json:"up"`
	Carrier   bool           `json:"carrier"`
	SpeedMbps int            `json:"speedMbps"` // 0: unknown or no link
	NumVFs    int            `json:"numVFs"`
	TotalVFs  int            `json:"totalVFs"`
	Autoprobe Tri            `json:"autoprobe"`
	Abilities Abilities      `json:"abilities"`
	VFs       []State        `json:"vfs"`

	// Err is why parts of this PF could not be read; the rest is still true
	// (I7: one broken device never hides the others).
	Err string `json:"err,omitempty"`
}

// VF returns the VF with the given index and whether it is there.
func (p PF) VF(index int) (State, bool) {
	for _, v := range p.VFs {
		if v.ID.Index == index {
			return v, true
		}
	}
	return State{}, false
}

// Label is how messages name a PF: its netdevice, else its PCI address.
func (p PF) Label() string {
	if p.Name != "" {
		return p.Name
	}
	return p.PCI.String()
}
