package desired

import (
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// SelectsPF reports whether a pool of the device plugin's file selects a PF itself, which that
// plugin gives out as a device while it has no VFs (netDeviceProvider.go, AddTargetDevices).
func (p Pool) SelectsPF(pf vf.PF) bool {
	return p.AsBound && p.Unserved == "" && slices.ContainsFunc(p.Selectors, func(s Selector) bool { return s.selectsPF(p, pf) })
}

// selectsPF compares a selector with a PF as matchesVF does with a VF. A PF has no index, so that a
// value with indexes does not select it.
func (s Selector) selectsPF(p Pool, pf vf.PF) bool {
	const noIndex = -1
	return anyOf(s.Vendors, func(w string) bool { return w == pf.Vendor }) &&
		anyOf(s.Devices, func(w string) bool { return w == pf.Device }) &&
		anyOf(s.Drivers, func(w string) bool { return w == pf.Driver }) &&
		anyOf(s.PCIAddresses, func(w vf.PCIAddr) bool { return w == pf.PCI }) &&
		len(s.ACPIIndexes) == 0 &&
		p.selectsByName(s.PFNames, pf, noIndex) &&
		p.selectsByRoot(s.RootDevices, pf, noIndex) &&
		(!s.IsRDMA || pf.RDMA)
}

// namesPFs reports whether a selector can only select PFs, by the models or drivers of NICs that
// Culvert knows.
func (s Selector) namesPFs() bool {
	vendors := s.Vendors
	if len(vendors) == 0 {
		vendors = []string{""}
	}
	isPF := func(device string) bool {
		return slices.ContainsFunc(vendors, func(vendor string) bool { return vf.IsPFModel(vendor, device) })
	}
	return areAll(s.Devices, isPF) || areAll(s.Drivers, vf.DrivesOnlyPFs)
}

// describeModels names the models and drivers that a selector selects.
func (s Selector) describeModels() string {
	var out []string
	for _, l := range []struct {
		key    string
		values []string
	}{{"vendors", s.Vendors}, {"devices", s.Devices}, {"drivers", s.Drivers}} {
		if len(l.values) > 0 {
			out = append(out, l.key+" "+strings.Join(l.values, ", "))
		}
	}
	return strings.Join(out, "; ")
}

// onlyUIO reports whether a selector selects only VFs that are bound to drivers of UIO.
func (s Selector) onlyUIO() bool { return areAll(s.Drivers, vf.IsUIO) }

// driversOfUIO returns the drivers of UIO that a pool selects by.
func (p Pool) driversOfUIO() (out []string) {
	for _, s := range p.Selectors {
		for _, d := range s.Drivers {
			if vf.IsUIO(d) && !slices.Contains(out, d) {
				out = append(out, d)
			}
		}
	}
	return out
}

// isEmpty reports whether a selector has no condition, and so selects every VF.
func (s Selector) isEmpty() bool {
	return len(s.Vendors)+len(s.Devices)+len(s.Drivers)+len(s.PCIAddresses)+len(s.PFNames)+len(s.RootDevices)+len(s.ACPIIndexes)+len(s.LinkTypes) == 0 && !s.IsRDMA
}

// areAll reports whether a list has entries and all of them are of a kind.
func areAll[T any](list []T, is func(T) bool) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(v T) bool { return !is(v) })
}
