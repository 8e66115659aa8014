package vf

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
)

// State is the kernel's report about one VF at one moment. It is never edited.
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

	// RDMA is the VF's RDMA device; nil when the VF has none.
	RDMA *RDMA `json:"rdma,omitempty"`

	Admin Admin `json:"admin"`
	// Can are the abilities of the PF's driver, as far as they are known; packages inventory and hold
	// set them.
	Can Abilities `json:"-"`
	// Link is the VF's netdevice. It is nil if the netdevice is in a netns that was not read, or
	// if the driver makes none.
	Link *Link `json:"link,omitempty"`
}

// RDMA is the RDMA device that a driver made for a PCI function.
type RDMA struct {
	// Device is its name, e.g. mlx5_2.
	Device string `json:"device"`
	// Nodes are the character devices by which programs use it, e.g.
	// /dev/infiniband/uverbs2.
	Nodes []string `json:"nodes"`
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
	// Tentative are those of Addrs whose duplicate address detection has no result yet, and
	// Duplicates those that another machine on the segment has. Neither can be used.
	Tentative  []netip.Prefix `json:"tentative,omitempty"`
	Duplicates []netip.Prefix `json:"duplicates,omitempty"`
	// Guard is the guard at a netdevice in a pod; nil if it was not read.
	Guard *Guard `json:"guard,omitempty"`
	// MoreAddrs and MoreRoutes count the addresses and routes beyond the bounded lists Addrs and
	// Routes.
	MoreAddrs  int `json:"moreAddrs,omitempty"`
	MoreRoutes int `json:"moreRoutes,omitempty"`
	// Attributes are the other settings that the kernel reports; all of them only when one
	// VF is read and its netdevice is on the host.
	Attributes Attributes `json:"-"`
	// Traffic are the netdevice's counters. They differ at each read.
	Traffic Traffic `json:"-"`
	// Bond is the bond that has the netdevice as a member, nil if none has. Only the read of one
	// VF has it.
	Bond *BondState `json:"bond,omitempty"`
}

// Brief returns the link with at most so many addresses and routes, those of its bond too. The counts
// of further ones grow.
func (l Link) Brief(most int) Link {
	l.MoreAddrs += max(0, len(l.Addrs)-most)
	l.MoreRoutes += max(0, len(l.Routes)-most)
	l.Addrs, l.Routes = firstOf(l.Addrs, most), firstOf(l.Routes, most)
	l.Tentative, l.Duplicates = firstOf(l.Tentative, most), firstOf(l.Duplicates, most)
	if l.Bond != nil {
		bond := *l.Bond
		bond.Link = bond.Link.Brief(most)
		l.Bond = &bond
	}
	return l
}

// firstOf returns the beginning of a list, which does not keep the rest in memory.
func firstOf[T any](all []T, most int) []T {
	if len(all) <= most {
		return all
	}
	return slices.Clone(all[:most])
}

// PF is the kernel's report about a Physical Function and its VFs. The status of a node
// shows it (api.PF).
type PF struct {
	Name       string  `json:"name"` // netdevice; empty when it has none
	ID         PFID    `json:"id"`
	PCI        PCIAddr `json:"pci"`
	Vendor     string  `json:"vendor"`
	Device     string  `json:"device"`
	Driver     string  `json:"driver"`
	NUMA       int     `json:"numa"`       // -1: unknown or none
	IOMMUGroup int     `json:"iommuGroup"` // -1: unknown or none
	// PCIeRoot is the PCIe root complex that the PF and its VFs are below, such as pci0000:00; empty:
	// unknown or none.
	PCIeRoot string `json:"-"`
	// MAC and Addrs are the present ones of the netdevice, or of the port.
	MAC   MAC            `json:"mac,omitzero"`
	Addrs []netip.Prefix `json:"addrs,omitempty"`
	// OwnAddrs are those of Addrs that Culvert added; the kernel keeps the mark.
	OwnAddrs []netip.Prefix `json:"ownAddrs,omitempty"`
	// HostAddrs are those of the Master, and of the interfaces that it is a member of in turn.
	HostAddrs []netip.Prefix `json:"-"`
	Up        bool           `json:"up"`
	Carrier   bool           `json:"carrier"`
	SpeedMbps int            `json:"speedMbps"` // 0: unknown or no link
	// CarrierLosses is how often the netdevice has lost its carrier since its driver made it.
	CarrierLosses uint32 `json:"carrierLosses,omitempty"`
	// Flapping is whether the link lost its carrier too often of late; package inventory sets it.
	// The kubelet then gives no VF of the PF to a pod.
	Flapping bool `json:"flapping,omitempty"`
	// Faults are the kinds of the errors that the PF and its VFs had of late; package inventory sets
	// them.
	Faults    []Fault   `json:"faults,omitempty"`
	MTU       int       `json:"mtu"`
	MaxMTU    int       `json:"maxMTU"` // 0: unknown
	Autoprobe Tri       `json:"autoprobe,omitzero"`
	Abilities Abilities `json:"abilities"`
	RDMA      bool      `json:"rdma,omitempty"` // whether the PF has an RDMA device
	// AltNames are the alternative names of the netdevice, or of the port (IFLA_ALT_IFNAME, Linux 5.5).
	AltNames []string `json:"altNames,omitempty"`
	// Port is the netdevice that has the link (carrier, speed, MTU, admin state) of a PF that has
	// none of its own: on Chelsio cards VFs belong to functions 0 to 3 and the ports to function
	// 4. Port is empty for other PFs.
	Port string `json:"port,omitempty"`
	// Master is the interface of the host of which the netdevice is a member, or the port; nil if
	// there is none.
	Master   *Master `json:"master,omitempty"`
	TotalVFs int     `json:"totalVFs"`         // how many VFs the device can have
	NumVFs   int     `json:"numVFs,omitempty"` // how many VFs the kernel has made
	VFs      []State `json:"vfs"`

	// Err is the reason why parts of this PF could not be read; the rest is still true (I7: one
	// broken device never hides the others).
	Err string `json:"error,omitempty"`
}

// VF returns the VF with the given index; false if the PF has no such VF.
func (p PF) VF(index int) (State, bool) {
	for _, v := range p.VFs {
		if v.ID.Index == index {
			return v, true
		}
	}
	return State{}, false
}

// Names returns the names by which people may select the PF: its netdevice, its port, and their
// alternative names.
func (p PF) Names() []string {
	return slices.DeleteFunc(append([]string{p.Name, p.Port}, p.AltNames...), func(name string) bool { return name == "" })
}

// Label returns the name of a PF in messages: its netdevice, else its PCI address.
func (p PF) Label() string {
	if p.Name != "" {
		return p.Name
	}
	return p.PCI.String()
}

// LinkProblem returns the reason why no VF of the PF can send to another machine, or can only at
// times. It returns "" if the PF has a steady link, and if the state of its link is unknown since its netdevice was not read.
func (p PF) LinkProblem() string {
	port := "PF " + cmp.Or(p.Port, p.Label())
	switch {
	case p.Name == "" && p.Port == "":
		return ""
	case p.Flapping:
		return port + ": " + DescribeFlapping()
	case !p.Up:
		return port + " is down"
	case !p.Carrier:
		return port + " has no link"
	}
	return ""
}

// CountText returns a number of VFs for a message: "1 VF", "7 VFs".
func CountText(n int) string {
	if n == 1 {
		return "1 VF"
	}
	return strconv.Itoa(n) + " VFs"
}
