package desired

import (
	"slices"

	"github.com/culvert-net/culvert/vf"
)

// VFDrivers are the netdevice drivers of the VFs that each PF driver makes, by
// Linux's own sources (drivers/net/ethernet). i40e's VFs had i40evf until
// Linux 4.20 and have iavf since. A PF driver that is not here is not known.
func VFDrivers(pfDriver string) []string {
	switch pfDriver {
	case "igb":
		return []string{"igbvf"}
	case "ixgbe":
		return []string{"ixgbevf"}
	case "i40e":
		return []string{"iavf", "i40evf"}
	case "ice":
		return []string{"iavf"}
	case "cxgb4":
		return []string{"cxgb4vf"}
	case "nfp":
		return []string{"nfp_netvf"}
	case "fm10k", "mlx4_core", "mlx5_core", "bnxt_en", "qede", "sfc":
		return []string{pfDriver}
	}
	return nil
}

// driverMatcher says whether a value of Selector.Drivers is true of a VF; see
// there for why its binding of the moment does not count.
func driverMatcher(deviceType string, pf vf.PF, v vf.State) func(string) bool {
	known := VFDrivers(pf.Driver)
	bound := v.Driver != "" && v.Driver != vf.DriverVFIO
	return func(w string) bool {
		switch {
		case w == vf.DriverVFIO:
			return deviceType == VFIO
		case bound && w == v.Driver, slices.Contains(known, w):
			return true
		}
		return !bound && len(known) == 0
	}
}
