package config

import (
	"bytes"
	"net/netip"
	"slices"

	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/network/strictjson"
	"github.com/culvert-net/culvert/internal/vf"
)

// readBond reads the keys bond and deviceIDs. Only networks of type culvert have them: the SR-IOV
// CNI plugin would attach one VF and ignore them.
func (c *Config) readBond(o *strictjson.Object) {
	if !o.Has("bond") {
		if o.Has("deviceIDs") {
			o.Fail("deviceIDs", "these are the VFs of a bond; a VF of its own is named by deviceID")
		}
		return
	}
	if c.Type != netconf.TypeCulvert {
		o.Refuse("bond", "bonds of VFs are served in networks of type %s: set type to %s", netconf.TypeCulvert, netconf.TypeCulvert)
		return
	}
	in := o.Object("bond")
	if in == nil {
		return
	}
	c.Bond = parseBond(in)
	c.readVFs(o)
}

// defaultMissedMax is the number of ARP intervals without a packet that the active member of a bond
// may have. With the kernel's own value of 2, a fail-over by ARP takes up to 3.5 intervals
// (docs/design/0024).
const defaultMissedMax = 1

// bondKeys are the keys of the object bond.
var bondKeys = []string{"links", "mode", "arpInterval", "arpIPTargets", "arpMissedMax", "primary", "antiAffinity", "force"}

// parseBond reads the object bond. Keys that are absent have the values that suit most networks.
func parseBond(o *strictjson.Object) *vf.Bond {
	o.Known(bondKeys...)
	b := &vf.Bond{Links: vf.MinLinks, Mode: vf.BondActiveBackup, AntiAffinity: vf.ApartPF}
	if n, ok := o.Uint("links", vf.MinLinks, vf.MaxLinks); ok {
		b.Links = int(n)
	}
	force := o.Bool("force")
	if mode, ok := strictjson.Text(o, "mode", vf.ParseBondMode); ok {
		b.Mode = mode
		if err := mode.CheckVFs(); err != nil && !force {
			o.Fail("mode", "%v, or \"force\": true if you know better", err)
		}
	}
	if a, ok := strictjson.Text(o, "antiAffinity", vf.ParseAntiAffinity); ok {
		b.AntiAffinity = a
	}
	readARP(o, b)
	b.Primary = o.String("primary")
	switch {
	case b.Primary == "" || IsIfName(b.Primary) && b.Mode == vf.BondActiveBackup:
	case b.Mode != vf.BondActiveBackup:
		o.Fail("primary", "only mode %s has a primary member", vf.BondActiveBackup)
	default:
		if pci, err := vf.ParsePCIAddr(b.Primary); err == nil {
			b.Primary = pci.String()
			break
		}
		o.Fail("primary", "want a PF: its interface, e.g. enp1s0f0, or its PCI address")
	}
	return b
}

// readARP reads the ARP requests by which the kernel finds out whether a member works.
func readARP(o *strictjson.Object, b *vf.Bond) {
	if n, ok := o.Uint("arpInterval", 0, vf.MaxARPInterval); ok {
		b.ARPInterval = int(n)
	}
	targets := o.Strings("arpIPTargets")
	if len(targets) > vf.MaxARPTargets {
		o.Fail("arpIPTargets", "want at most %d addresses", vf.MaxARPTargets)
		return
	}
	for _, text := range targets {
		a, err := netip.ParseAddr(text)
		if err != nil || !a.Is4() || a.IsUnspecified() || a.IsMulticast() || slices.Contains(b.ARPTargets, a) {
			o.Fail("arpIPTargets", "want IPv4 addresses that differ, e.g. 10.1.0.1")
			return
		}
		b.ARPTargets = append(b.ARPTargets, a)
	}
	missed, has := o.Uint("arpMissedMax", 1, vf.MaxARPMissed)
	switch {
	case o.Failed("arpIPTargets"), o.Failed("arpInterval"):
	case b.ARPInterval != 0 && len(b.ARPTargets) == 0:
		o.Fail("arpInterval", "needs arpIPTargets: addresses that answer ARP requests, such as the gateway")
	case b.ARPInterval == 0 && len(b.ARPTargets) > 0:
		o.Fail("arpIPTargets", "needs arpInterval: the milliseconds between two requests, e.g. 100")
	case b.ARPInterval != 0 && (b.Mode == "802.3ad" || b.Mode == "balance-tlb" || b.Mode == "balance-alb"):
		o.Fail("arpInterval", "mode %s watches the carrier and cannot send ARP requests", b.Mode)
	case b.ARPInterval == 0 && has:
		o.Fail("arpMissedMax", "needs arpInterval and arpIPTargets: it counts intervals without an answer. Set both, or take it out")
	case b.ARPInterval != 0 && has:
		b.ARPMissedMax = int(missed)
	case b.ARPInterval != 0:
		b.ARPMissedMax = defaultMissedMax
	}
}

// readVFs reads the VFs of a bond. The first one is also the VF of deviceID, if that is there.
func (c *Config) readVFs(o *strictjson.Object) {
	for _, text := range o.Strings("deviceIDs") {
		pci, err := vf.ParsePCIAddr(text)
		if err != nil || slices.Contains(c.VFs, pci) {
			o.Fail("deviceIDs", "want PCI addresses of VFs that differ, e.g. 0000:3b:02.1")
			return
		}
		c.VFs = append(c.VFs, pci)
	}
	switch {
	case len(c.VFs) == 0:
	case c.Bond != nil && len(c.VFs) != c.Bond.Links:
		o.Fail("deviceIDs", "want %d, as many as the bond has links", c.Bond.Links)
	case !c.VF.IsZero() && c.VF != c.VFs[0]:
		o.Fail("deviceIDs", "the first one is not deviceID %s; want one", c.VF)
	default:
		c.VF = c.VFs[0]
	}
}

// BondOf returns the bond of a network, nil if it has none. It returns nil for a network that
// cannot be read, which its ADD refuses.
func BondOf(l netconf.List) *vf.Bond {
	for _, p := range l.Plugins {
		if !p.IsOwn() || !bytes.Contains(p.Raw, []byte(`"bond"`)) {
			continue
		}
		if c, err := parse(p.Raw, &l); err == nil && c.Bond != nil {
			return c.Bond
		}
	}
	return nil
}

// VFsOf returns how many VFs a network needs: as many as its bond has links, else one.
func VFsOf(l netconf.List) int {
	if b := BondOf(l); b != nil {
		return b.Links
	}
	return 1
}
