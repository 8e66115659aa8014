// Package claims finds the other programs of this host that are set up to configure a PF or its
// VFs: NetworkManager, systemd-networkd and udev's .link files, netplan, ifupdown, RHEL's ifcfg
// files, os-net-config, cloud-init, nmstate, Incus and LXD, and files that people write by hand (udev
// rules, units, scripts, modprobe.d). It reads their files and returns claims with file and line.
// culvertd shows the claims in its status, and culvert doctor explains them. Culvert changes none of
// these files: it keeps its own rules and reports the claims.
//
// One scanner reads what people write by hand: places (places.go) say where, forms (forms.go) say
// which program and which file of sysfs sets what. It interprets no shell beyond variables with known
// values, loops over them and functions, and follows scripts that a line names.
//
// The package does not guess beyond the files: it leaves out profiles that were loaded from
// elsewhere, and [Match] keys that need udev's database.
package claims

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// Setting is the setting that a claim would change.
type Setting string

// The settings.
const (
	// Count is sriov_numvfs. All of them write 0 before another number, which takes every VF
	// from its owner.
	Count Setting = "sriov_numvfs"
	// VFSettings are VLAN, MAC, trust and the like, set on a VF through its PF.
	VFSettings Setting = "VF settings"
	// MTU is that of the netdevice.
	MTU Setting = "MTU"
	// Managed means up and down, addresses and routes of the netdevice.
	Managed Setting = "managed"
	// Binding is the driver of a VF, or of the PF.
	Binding Setting = "driver"
	// Switch is the mode of the NIC's own switch, whose change drops the VFs.
	Switch Setting = "eswitch mode"
)

// Managers.
const (
	NetworkManager = "NetworkManager"
	Networkd       = "systemd-networkd"
	Udev           = "udev"
	Netplan        = "netplan"
	Ifupdown       = "ifupdown"
	ByHand         = "a script"
)

// Claim is one setting of a PF or of its VFs that a file of another program would set.
type Claim struct {
	Manager string
	File    string // absolute; a folder if the claim comes from a file that is missing in it
	Line    int    // 0: no line of it
	Says    string // the text of the line, in short: "total-vfs=8"

	// PF is the label of the PF; empty when the line does not name one.
	PF string
	// VFs are the indexes that the claim is about; empty for the PF itself, or when the line names
	// no VF.
	VFs     []int
	Setting Setting
	Value   string // as written: a number, or empty

	// HandOver has the commands and lines that hand the device over to Culvert.
	HandOver []string
}

// Where returns file:line.
func (c Claim) Where() string {
	if c.Line == 0 {
		return c.File
	}
	return fmt.Sprintf("%s:%d", c.File, c.Line)
}

// Device is a netdevice that a claim can be about.
type Device struct {
	PF   string // label of its PF, or its own
	VF   int    // index, or -1 for the PF itself
	Name string // netdevice; may be empty
	// Others are further names of the netdevice: alternative ones (altname of ip link), and that of the
	// port.
	Others []string
	Driver string
	MAC    vf.MAC // permanent
	PCI    vf.PCIAddr
	Model  string // VENDOR:DEVICE, four hexadecimal digits each; empty: unknown
}

// Devices returns the PFs and those of their VFs that have a netdevice on the
// host.
func Devices(pfs []vf.PF) []Device {
	return slices.DeleteFunc(listFunctions(pfs), func(d Device) bool { return !d.isPF() && d.Name == "" })
}

// listFunctions returns the PFs and all of their VFs.
func listFunctions(pfs []vf.PF) []Device {
	var all []Device
	for _, pf := range pfs {
		all = append(all, Device{PF: pf.Label(), VF: -1, Name: pf.Name, Others: otherNames(pf), Driver: pf.Driver, MAC: pf.ID.MAC, PCI: pf.PCI, Model: modelOf(pf.Vendor, pf.Device)})
		for _, v := range pf.VFs {
			d := Device{PF: pf.Label(), VF: v.ID.Index, Driver: v.Driver, PCI: v.PCI, Model: modelOf(v.Vendor, v.Device)}
			if v.Link != nil && v.Link.Netns == "" {
				d.Name, d.MAC = v.Link.Name, v.Link.MAC
			}
			all = append(all, d)
		}
	}
	return all
}

// otherNames returns the names of a PF beside that of its netdevice.
func otherNames(pf vf.PF) []string {
	return slices.DeleteFunc(pf.Names(), func(name string) bool { return name == pf.Name })
}

// names returns the names of a device. The first may be empty.
func (d Device) names() []string { return append([]string{d.Name}, d.Others...) }

// isCalled reports whether a name is one of the device's names.
func (d Device) isCalled(name string) bool { return name != "" && slices.Contains(d.names(), name) }

func modelOf(vendor, device string) string {
	if vendor == "" || device == "" {
		return ""
	}
	return vendor + ":" + device
}

// isPF reports whether d is the PF itself.
func (d Device) isPF() bool { return d.VF < 0 }

// newClaim starts a claim on d.
func (d Device) newClaim(manager string, e entry, s Setting) Claim {
	c := Claim{Manager: manager, File: e.file, Line: e.line, Says: e.formatSays(), PF: d.PF, Setting: s, Value: e.value}
	if !d.isPF() {
		c.VFs = []int{d.VF}
	}
	return c
}

// mergeClaims merges claims that differ only by their VF, and orders all claims by PF, file and
// line.
func mergeClaims(all []Claim) []Claim {
	type key struct {
		manager, file, pf string
		line              int
		setting           Setting
		ofVFs             bool
	}
	at := map[key]int{}
	var out []Claim
	for _, c := range all {
		k := key{c.Manager, c.File, c.PF, c.Line, c.Setting, len(c.VFs) > 0}
		i, again := at[k]
		if !again {
			at[k] = len(out)
			out = append(out, c)
			continue
		}
		out[i].VFs = append(out[i].VFs, c.VFs...)
		if out[i].Value != c.Value {
			out[i].Value = "" // a line sets several values
		}
	}
	for i := range out {
		slices.Sort(out[i].VFs)
		out[i].VFs = slices.Compact(out[i].VFs)
	}
	slices.SortStableFunc(out, func(a, b Claim) int {
		return cmp.Or(cmp.Compare(a.PF, b.PF), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Setting, b.Setting))
	})
	return out
}

// stripQuotes takes a pair of quotes off.
func stripQuotes(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// isYes reads a boolean of systemd's or NetworkManager's files.
func isYes(s string) bool {
	return slices.Contains([]string{"1", "yes", "y", "true", "t", "on"}, strings.ToLower(stripQuotes(s)))
}

// isNo reports whether a text says no. A text may be neither yes nor no.
func isNo(s string) bool {
	return slices.Contains([]string{"0", "no", "n", "false", "f", "off"}, strings.ToLower(stripQuotes(s)))
}
