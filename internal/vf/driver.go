package vf

import (
	"fmt"
	"slices"
	"strings"
)

// Driver has the facts about a PF driver and its NICs that the kernel does not report: it answers
// EINVAL to a value outside of a limit, or rounds the value silently. The zero value is a driver
// that Culvert does not know; it refuses nothing. A new quirk is a field here and a value in the
// table of drivers.go.
type Driver struct {
	Name string // in sysfs
	// VFDrivers has the netdevice drivers of its VFs, the present one first.
	VFDrivers []string

	// VFQueues is how many receive queues one of its VFs has at most; 0: not known.
	VFQueues int
	// Windows says what a Windows guest needs for its VFs.
	Windows WindowsVF

	// Vendors, PFDevices and VFDevices are PCI IDs, four hexadecimal digits each:
	// of NICs that have SR-IOV in hardware, and of VFs that have the same driver
	// as their PF.
	Vendors, PFDevices, VFDevices []string
	// OnlySRIOV: every NIC that the driver serves has SR-IOV in hardware.
	OnlySRIOV bool
	// SwitchOn says how SR-IOV is switched on, with %s for the NIC's PCI address;
	// empty: in firmware setups.
	SwitchOn string
	// Limit is the command that shows how many VFs the card's firmware allows, with %s for the NIC's
	// PCI address; empty: there is none.
	Limit string
	// Split: VFs belong to other PCI functions than the ports (kernel/split.go).
	Split bool

	// Lacks are the settings that the driver does not have. Culvert itself uses Abilities, which it
	// gets from the kernel, except for min_tx_rate: drivers without it accept the 0 that Probe
	// writes. The fake kernel uses Lacks.
	Lacks []Setting

	// Lowest is the lowest max_tx_rate other than 0, in Mb/s. The driver refuses less, or raises
	// it to Lowest if Raises is set. 0 means that the driver's rates are unknown.
	Lowest uint32
	Raises bool
	// Step: the hardware rounds max_tx_rate down to a multiple of Step, in Mb/s. The kernel still
	// reports the requested rate.
	Step uint32
	// UpToLink: no rate above the speed of the link.
	UpToLink bool
	// NeedsLink: without link no rate can be set. ClearNeedsLink: without link none can be
	// cleared either.
	NeedsLink, ClearNeedsLink bool
	// OnlyAt is the only speed of the link at which rates can be set or cleared,
	// Mb/s; 0: any.
	OnlyAt int
	// DropsRates: the driver clears all rates when the speed of the link
	// changes.
	DropsRates bool
	// CountsVFs: rx_packets and tx_packets in the PF's statistics count the frames of its VFs too.
	CountsVFs bool

	// NoQoS: a VLAN may have no priority.
	NoQoS bool
	// BreaksOnNoVLAN: a write of no VLAN to a VF that has none breaks a lock of the driver.
	BreaksOnNoVLAN bool
	// KeepsSettings: the settings of a VF outlive it. A VF that is made anew has those of the last VF
	// with its number.
	KeepsSettings bool
	// ClearsMAC says when a VF's MAC can be cleared. Culvert clears a MAC only if one is set, and
	// its VFs always have one.
	ClearsMAC When
}

// When is the condition under which a driver does something.
type When uint8

// The answers; the zero value is Always.
const (
	Always When = iota
	OnlyIfSet
	Never
)

// DriverOf returns the row of a PF driver, by its name in sysfs.
func DriverOf(name string) Driver {
	i := slices.IndexFunc(drivers, func(d Driver) bool { return d.Name == name })
	if i < 0 || name == "" {
		return Driver{}
	}
	return drivers[i]
}

// DrivesVFs reports whether a netdevice driver is known to serve the VFs of a PF driver.
func DrivesVFs(name string) bool {
	return slices.ContainsFunc(drivers, func(d Driver) bool { return slices.Contains(d.VFDrivers, name) })
}

// IsUIO reports whether a driver hands a device to user space by /dev/uioN, which no IOMMU guards.
func IsUIO(driver string) bool {
	return driver == "uio" || driver == "igb_uio" || strings.HasPrefix(driver, "uio_")
}

// DrivesOnlyPFs reports whether a driver is known to serve PFs, and to serve no VF.
func DrivesOnlyPFs(name string) bool { return DriverOf(name).Name != "" && !DrivesVFs(name) }

// IsPFModel reports whether a model of NIC is known to be a PF. An empty vendor stands for any.
func IsPFModel(vendor, device string) bool {
	return slices.ContainsFunc(drivers, func(d Driver) bool {
		return (vendor == "" || slices.Contains(d.Vendors, vendor)) && slices.Contains(d.PFDevices, device)
	})
}

// IsVF reports whether a NIC is a VF, by its driver or its model. A guest sees a VF without its
// PF.
func (n NIC) IsVF() bool {
	return slices.ContainsFunc(drivers, func(d Driver) bool {
		return n.Driver != d.Name && slices.Contains(d.VFDrivers, n.Driver) || slices.Contains(d.Vendors, n.Vendor) && slices.Contains(d.VFDevices, n.Device)
	})
}

// HowToSwitchOn says how SR-IOV is switched on in a NIC that has it in hardware,
// by its driver or its model; ok is false for any other NIC.
func (n NIC) HowToSwitchOn() (how string, ok bool) {
	i := slices.IndexFunc(drivers, func(d Driver) bool {
		return d.OnlySRIOV && n.Driver == d.Name || slices.Contains(d.Vendors, n.Vendor) && slices.Contains(d.PFDevices, n.Device)
	})
	switch {
	case i < 0:
		return "", false
	case drivers[i].SwitchOn != "":
		return fmt.Sprintf(drivers[i].SwitchOn, n.PCI), true
	}
	return "in the machine's firmware setup (SR-IOV) and in the card's own", true
}

// AskLimit returns the command that shows the firmware's limits of a PF's VFs; "" if Culvert knows
// none.
func (d Driver) AskLimit(pf PCIAddr) string {
	if d.Limit == "" {
		return ""
	}
	return fmt.Sprintf(d.Limit, pf)
}

// Effective returns the rates that the hardware applies if the kernel reports a (I6).
func (d Driver) Effective(a Admin) Admin {
	if a.MaxTxRate == 0 {
		return a
	}
	if d.Raises {
		a.MaxTxRate = max(a.MaxTxRate, d.Lowest)
	}
	if d.Step > 0 {
		a.MaxTxRate -= a.MaxTxRate % d.Step
	}
	return a
}

// RateRange describes which max_tx_rate the PF accepts at present. It returns "" if Culvert does
// not know the driver.
func (p PF) RateRange() string {
	d := DriverOf(p.Driver)
	if d.Lowest == 0 {
		return ""
	}
	s := fmt.Sprintf("%d Mb/s and more", d.Lowest)
	switch {
	case d.OnlyAt != 0:
		s = fmt.Sprintf("%d to %d Mb/s, and only while its link runs at %d Mb/s", d.Lowest, d.OnlyAt, d.OnlyAt)
	case d.UpToLink && p.SpeedMbps > 0:
		s = fmt.Sprintf("%d to %d Mb/s (its link)", d.Lowest, p.SpeedMbps)
	case d.UpToLink:
		s = fmt.Sprintf("%d Mb/s to the speed of its link", d.Lowest)
	}
	if d.Step > 0 {
		s += fmt.Sprintf(", in steps of %d", d.Step)
	}
	if d.Raises {
		s += fmt.Sprintf(", less counts as %d", d.Lowest)
	}
	if slices.Contains(d.Lacks, SetMinTxRate) {
		s += "; no min_tx_rate"
	}
	return s
}

// CanClearRates reports whether the PF's driver can clear the rates of a VF at present.
func (p PF) CanClearRates() bool {
	d := DriverOf(p.Driver)
	return (p.Carrier || !d.ClearNeedsLink) && (d.OnlyAt == 0 || p.SpeedMbps == d.OnlyAt)
}

// MostQueuesOfVF returns how many receive queues a VF with a driver has at most; 0 if that is not known.
func MostQueuesOfVF(vfDriver string) int {
	for _, d := range drivers {
		if slices.Contains(d.VFDrivers, vfDriver) {
			return d.VFQueues
		}
	}
	return 0
}
