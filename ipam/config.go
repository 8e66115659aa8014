package ipam

import (
	"net/netip"

	"github.com/culvert-net/culvert/vf"
)

// Config is a network's ipam section, parsed and checked. The zero value means
// that the network gives no addresses.
type Config struct {
	// Type is host-local or static.
	Type string
	// Sets is a list of range sets; an attachment gets one address of each.
	Sets [][]Range
	// Exclude is never given out.
	Exclude []netip.Prefix
	// Static are the addresses of Type static.
	Static []vf.Address
	// Routes, where a Gateway that is not given is the range's.
	Routes []vf.Route
	DNS    DNS
}

// Range is a run of addresses of one subnet, Start and End included.
type Range struct {
	Subnet     netip.Prefix
	Start, End netip.Addr
	Gateway    netip.Addr
}

// DNS is passed on to the runtime as it is (CNI result, section dns).
type DNS struct {
	Nameservers []string `json:"nameservers,omitempty"`
	Domain      string   `json:"domain,omitempty"`
	Search      []string `json:"search,omitempty"`
	Options     []string `json:"options,omitempty"`
}

// IsZero reports whether c asks for no addresses.
func (c Config) IsZero() bool { return c.Type == "" }
