package desired

import (
	"slices"

	"github.com/culvert-net/culvert/internal/vf"
)

// driverMatcher returns a function that reports whether a value of Selector.Drivers matches a VF.
// Selector explains why the VF's present binding does not count.
func driverMatcher(p Pool, pf vf.PF, v vf.State) func(string) bool {
	known := vf.DriverOf(pf.Driver).VFDrivers
	bound := v.Driver != "" && v.Driver != vf.DriverVFIO
	return func(w string) bool {
		switch {
		case p.AsBound && v.Driver != "":
			return w == v.Driver
		case w == vf.DriverVFIO:
			return p.DeviceType == VFIO && !p.AsBound
		case bound && w == v.Driver, slices.Contains(known, w):
			return true
		}
		// A VF that is not made yet may get any driver. One that is there does not get that of another
		// card.
		return !bound && len(known) == 0 && (v.PCI.IsZero() || !vf.DrivesVFs(w))
	}
}
