package vf

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/excerpt"
)

// Baseline is what a VF looked like when it was made and clean: every
// attribute that invariant I2 wants back before the VF is given out again.
type Baseline struct {
	Admin  Admin  `json:"admin"`
	Driver string `json:"driver"`
	// Name, LinkMAC and MTU are the netdevice's, zero when it has none (a VF
	// made for vfio-pci).
	Name    string `json:"name,omitempty"`
	LinkMAC MAC    `json:"linkMAC,omitzero"`
	MTU     int    `json:"mtu,omitempty"`
	// Up is the admin state. Addresses and promiscuity have no field: a clean
	// VF has none.
	Up bool `json:"up"`
	// Attributes are everything else that the kernel tells of the netdevice; empty in the
	// ledger of an earlier version.
	Attributes Attributes `json:"attributes,omitempty"`
}

// BaselineOf takes the baseline of a VF that is clean.
func BaselineOf(s State) Baseline {
	b := Baseline{Admin: s.Admin, Driver: s.Driver}
	if s.Link != nil {
		b.Name, b.LinkMAC, b.MTU, b.Up = s.Link.Name, s.Link.MAC, s.Link.MTU, s.Link.Up
		b.Attributes = s.Link.Attributes
	}
	return b
}

// IsComplete reports whether the baseline has every attribute that s shows of the
// netdevice. One that an earlier version wrote has fewer. A value that the driver chose as
// it bound must be the same: else an owner changed it, or the driver was bound anew.
func (b Baseline) IsComplete(s State) bool {
	return b.Name == "" || s.Link == nil || b.Attributes.covers(s.Link.Attributes)
}

// Completed returns the baseline with the attributes of s that it lacks, and with those
// that a driver chooses anew as it binds. The driver of the VF was just bound anew.
func (b Baseline) Completed(s State) Baseline {
	if b.Name != "" && s.Link != nil && s.Link.Netns == "" {
		b.Attributes = b.Attributes.completed(s.Link.Attributes)
	}
	return b
}

// WithInterface returns the baseline with what a new interface has by itself, or by the
// host's rules for new ones: its name, MTU, state and attributes. The driver and what the PF
// holds for the VF stay.
func (b Baseline) WithInterface(s State) Baseline {
	if b.Name != "" && s.Link != nil {
		b.Name, b.MTU, b.Up, b.Attributes = s.Link.Name, s.Link.MTU, s.Link.Up, s.Link.Attributes
	}
	return b
}

// Difference is one attribute that is not as it should be.
type Difference struct {
	Attribute string `json:"attribute"`
	Want      string `json:"want"`
	Have      string `json:"have"`
}

func (d Difference) String() string {
	return fmt.Sprintf("%s is %s, not %s", d.Attribute, cmp.Or(d.Have, "none"), cmp.Or(d.Want, "none"))
}

// mostDifferences is how many differences a message lists.
const mostDifferences = 20

// Differences joins for a message, which lists the first ones and counts the others.
func Differences(ds []Difference) string {
	var parts []string
	for _, d := range ds[:min(len(ds), mostDifferences)] {
		parts = append(parts, d.String())
	}
	if more := len(ds) - len(parts); more > 0 {
		parts = append(parts, excerpt.More(more))
	}
	return strings.Join(parts, "; ")
}

type comparison struct{ out []Difference }

func (c *comparison) check(attribute string, want, have any) {
	if want == have {
		return
	}
	c.out = append(c.out, Difference{attribute, fmt.Sprint(want), fmt.Sprint(have)})
}

// Diff lists what of s is not as the baseline b says; nothing for a clean VF.
// An attribute whose baseline is Unknown is not compared: the driver cannot
// tell.
func (b Baseline) Diff(s State) []Difference {
	var c comparison
	c.check("driver", b.Driver, s.Driver)
	c.admin(b.Admin, s.Admin)
	if b.Name == "" {
		if s.Link != nil {
			c.check("netdevice", "", s.Link.Name)
		}
		return c.out
	}
	if s.Link == nil {
		c.check("netdevice", b.Name, "")
		return c.out
	}
	c.link(b, *s.Link)
	return c.out
}

func (c *comparison) admin(want, have Admin) {
	c.check("mac", want.MAC, have.MAC)
	if !want.VLAN.Same(have.VLAN) {
		c.check("vlan", want.VLAN.String(), have.VLAN.String())
	}
	for _, name := range Switches() {
		c.tri(string(name), *want.Switch(name), *have.Switch(name))
	}
	c.check("link_state", want.LinkState, have.LinkState)
	c.check("min_tx_rate", want.MinTxRate, have.MinTxRate)
	c.check("max_tx_rate", want.MaxTxRate, have.MaxTxRate)
}

func (c *comparison) tri(attribute string, want, have Tri) {
	if want != Unknown {
		c.check(attribute, want, have)
	}
}

func (c *comparison) link(b Baseline, l Link) {
	c.check("netns", "", l.Netns)
	c.check("name", b.Name, l.Name)
	c.check("link mac", b.LinkMAC, l.MAC)
	c.check("mtu", b.MTU, l.MTU)
	c.check("up", b.Up, l.Up)
	c.check("promisc", false, l.Promisc)
	c.check("allmulti", false, l.AllMulti)
	c.check("addresses", 0, len(l.Addrs)+l.MoreAddrs)
	c.out = append(c.out, b.Attributes.Diff(l.Attributes)...)
}
