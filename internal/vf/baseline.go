package vf

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// Baseline is the state of a VF when it was made and clean: every attribute that invariant I2
// demands again before the VF is given out.
type Baseline struct {
	Admin  Admin  `json:"admin"`
	Driver string `json:"driver"`
	// Name, LinkMAC and MTU are those of the netdevice. They are zero if the VF has none, as a VF
	// that was made for vfio-pci.
	Name    string `json:"name,omitempty"`
	LinkMAC MAC    `json:"linkMAC,omitzero"`
	MTU     int    `json:"mtu,omitempty"`
	// Up is the admin state. Addresses and promiscuity have no field: a clean
	// VF has none.
	Up bool `json:"up"`
	// Attributes are all other values that the kernel shows of the netdevice; empty in the
	// ledger of an earlier version.
	Attributes Attributes `json:"attributes,omitempty"`
}

// BaselineOf returns the baseline of a VF that is clean.
func BaselineOf(s State) Baseline {
	b := Baseline{Admin: s.Admin, Driver: s.Driver}
	if s.Link != nil {
		b.Name, b.LinkMAC, b.MTU, b.Up = s.Link.Name, s.Link.MAC, s.Link.MTU, s.Link.Up
		b.Attributes = s.Link.Attributes
	}
	return b
}

// IsComplete reports whether the baseline has every attribute that s shows of the netdevice. A
// baseline that an earlier version wrote has fewer. A value that the driver chose as it bound
// must be the same. Otherwise an owner changed it, or the driver was bound anew.
func (b Baseline) IsComplete(s State) bool {
	return b.Name == "" || s.Link == nil || b.Attributes.coversAll(s.Link.Attributes)
}

// Completed returns the baseline with the attributes of s that it lacks, and with those
// that a driver chooses anew as it binds. The driver of the VF was just bound anew.
func (b Baseline) Completed(s State) Baseline {
	if b.Name != "" && s.Link != nil && s.Link.Netns == "" {
		b.Attributes = b.Attributes.completeFrom(s.Link.Attributes)
	}
	return b
}

// WithInterface returns the baseline with the properties that a new interface has by itself, or
// by the host's rules for new interfaces: name, MTU, state and attributes. The driver and the
// PF's settings for the VF stay.
func (b Baseline) WithInterface(s State) Baseline {
	if b.Name != "" && s.Link != nil {
		b.Name, b.MTU, b.Up, b.Attributes = s.Link.Name, s.Link.MTU, s.Link.Up, s.Link.Attributes
	}
	return b
}

// Difference is one attribute whose value is not the expected one.
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

// Differences joins differences for a message. It lists the first ones and counts the others.
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

// comparison has the differences, and how many values were compared.
type comparison struct {
	out      []Difference
	compared int
}

func (c *comparison) compareValue(attribute string, want, have any) {
	c.compared++
	if want == have {
		return
	}
	c.out = append(c.out, Difference{attribute, fmt.Sprint(want), fmt.Sprint(have)})
}

// Diff lists the differences between s and the baseline b; a clean VF has none. It does not
// compare an attribute whose baseline is Unknown, since the driver cannot report it, or a setting
// that the driver cannot change.
func (b Baseline) Diff(s State) []Difference {
	differences, _ := b.Compare(s)
	return differences
}

// Compare returns Diff, and how many attributes were compared.
func (b Baseline) Compare(s State) (differences []Difference, compared int) {
	var c comparison
	c.compareValue("driver", b.Driver, s.Driver)
	c.compareAdmin(s.Settle(b.Admin), s.Admin)
	if b.Name == "" {
		if s.Link != nil {
			c.compareValue("netdevice", "", s.Link.Name)
		}
		return c.out, c.compared
	}
	if s.Link == nil {
		c.compareValue("netdevice", b.Name, "")
		return c.out, c.compared
	}
	c.compareLink(b, *s.Link)
	return c.out, c.compared
}

// DiffAdmin returns how the PF's settings for a VF differ from those of the baseline.
func (b Baseline) DiffAdmin(have Admin) []Difference {
	var c comparison
	c.compareAdmin(b.Admin, have)
	return c.out
}

func (c *comparison) compareAdmin(want, have Admin) {
	c.compareValue("mac", want.MAC, have.MAC)
	if want.VLAN.Same(have.VLAN) {
		c.compared++
	} else {
		c.compareValue("vlan", want.VLAN.String(), have.VLAN.String())
	}
	for _, name := range Switches() {
		c.compareTri(string(name), *want.Switch(name), *have.Switch(name))
	}
	c.compareValue("link_state", want.LinkState, have.LinkState)
	c.compareValue("min_tx_rate", want.MinTxRate, have.MinTxRate)
	c.compareValue("max_tx_rate", want.MaxTxRate, have.MaxTxRate)
}

func (c *comparison) compareTri(attribute string, want, have Tri) {
	if want != Unknown {
		c.compareValue(attribute, want, have)
	}
}

func (c *comparison) compareLink(b Baseline, l Link) {
	c.compareValue("netns", "", l.Netns)
	c.compareValue("name", b.Name, l.Name)
	c.compareValue("link mac", b.LinkMAC, l.MAC)
	c.compareValue("mtu", b.MTU, l.MTU)
	c.compareValue("up", b.Up, l.Up)
	c.compareValue("promisc", false, l.Promisc)
	c.compareValue("allmulti", false, l.AllMulti)
	c.compareValue("addresses", 0, len(l.Addrs)+l.MoreAddrs)
	if l.Bond != nil {
		c.compareValue("bond", "", l.Bond.Link.Name)
	}
	c.compareAttributes(b.Attributes, l.Attributes)
}
