package vf

import (
	"errors"
	"fmt"
)

// Rules is what is known of a PF driver's own limits on the settings it has,
// from the source of Linux. The kernel's interface tells nothing of them: a
// value outside gives EINVAL, or is rounded without a word. The zero value
// knows nothing and refuses nothing. Which settings a driver has is not here:
// Abilities are asked of the kernel.
type Rules struct {
	// MinRate says whether it takes a min_tx_rate.
	MinRate Tri
	// Lowest is the lowest max_tx_rate other than 0, in Mb/s; less is refused,
	// or taken as Lowest where Raises is set.
	Lowest uint32
	Raises bool
	// Step: a max_tx_rate is floored to a multiple of it, in Mb/s. The kernel
	// goes on reporting what was asked.
	Step uint32
	// UpToLink: no rate above the speed of the link.
	UpToLink bool
	// NeedsLink: no rate at all, and where ClearNeedsLink is set not the
	// clearing of one either, without link.
	NeedsLink, ClearNeedsLink bool
	// OnlyAt is the only speed of the link at which rates can be set, Mb/s; 0:
	// any.
	OnlyAt int
	// DropsRates: the driver clears all rates when the speed of the link
	// changes.
	DropsRates bool
	// NoQoS: a VLAN may have no priority.
	NoQoS bool
}

// RulesOf returns the rules of a PF driver, by its name in sysfs. Sources, in
// drivers/net/ethernet of Linux 6.12:
//
//	igb     intel/igb/igb_main.c          igb_ndo_set_vf_bw, igb_check_vf_rate_limit
//	ixgbe   intel/ixgbe/ixgbe_sriov.c     ixgbe_ndo_set_vf_bw, ixgbe_check_vf_rate_limit
//	i40e    intel/i40e/i40e_virtchnl_pf.c i40e_ndo_set_vf_bw; i40e_main.c i40e_set_bw_limit
//	ice     intel/ice/ice_sriov.c         ice_set_vf_bw; ice_lib.c ice_set_max_bw_limit; its
//	        scheduler counts in 500 kb/s (ICE_SCHED_MIN_BW), so whole Mb/s are exact
//	mlx5    mellanox/mlx5/core/eswitch.c  mlx5_eswitch_set_vport_rate
//	cxgb4   chelsio/cxgb4/cxgb4_main.c    cxgb4_mgmt_set_vf_rate, cxgb4_mgmt_set_vf_vlan
//	bnxt    broadcom/bnxt/bnxt_sriov.c    bnxt_set_vf_bw, bnxt_set_vf_vlan
func RulesOf(driver string) Rules {
	switch driver {
	case "igb":
		return Rules{MinRate: No, Lowest: 1, UpToLink: true, NeedsLink: true, ClearNeedsLink: true, DropsRates: true}
	case "ixgbe":
		return Rules{MinRate: No, Lowest: 11, UpToLink: true, NeedsLink: true, ClearNeedsLink: true, OnlyAt: 10000, DropsRates: true}
	case "i40e":
		return Rules{MinRate: No, Lowest: 50, Raises: true, Step: 50, UpToLink: true, NeedsLink: true}
	case "ice":
		return Rules{MinRate: Yes, Lowest: 1, UpToLink: true}
	case "mlx5_core":
		return Rules{MinRate: Yes, Lowest: 1}
	case "cxgb4":
		return Rules{MinRate: No, Lowest: 1, UpToLink: true, NeedsLink: true, NoQoS: true}
	case "bnxt_en":
		return Rules{MinRate: Yes, Lowest: 1, UpToLink: true, NoQoS: true}
	}
	return Rules{}
}

// Effective returns the rates that the hardware keeps to where the kernel
// reports a (I6).
func (r Rules) Effective(a Admin) Admin {
	if a.MaxTxRate == 0 {
		return a
	}
	if r.Raises {
		a.MaxTxRate = max(a.MaxTxRate, r.Lowest)
	}
	if r.Step > 0 {
		a.MaxTxRate -= a.MaxTxRate % r.Step
	}
	return a
}

// Range says in words which max_tx_rate the PF takes as things are; empty when
// nothing is known of its driver.
func (r Rules) Range(pf PF) string {
	if r == (Rules{}) {
		return ""
	}
	s := fmt.Sprintf("%d Mb/s and more", r.Lowest)
	switch {
	case r.OnlyAt != 0:
		s = fmt.Sprintf("%d to %d Mb/s, and only while its link runs at %d Mb/s", r.Lowest, r.OnlyAt, r.OnlyAt)
	case r.UpToLink && pf.SpeedMbps > 0:
		s = fmt.Sprintf("%d to %d Mb/s (its link)", r.Lowest, pf.SpeedMbps)
	case r.UpToLink:
		s = fmt.Sprintf("%d Mb/s to the speed of its link", r.Lowest)
	}
	if r.Step > 0 {
		s += fmt.Sprintf(", in steps of %d", r.Step)
	}
	if r.Raises {
		s += fmt.Sprintf(", less counts as %d", r.Lowest)
	}
	if r.MinRate == No {
		s += "; no min_tx_rate"
	}
	return s
}

// Check refuses what the PF's driver would refuse of s as things are: with
// ErrUnable, or ErrInvalid for what no driver takes.
func (r Rules) Check(pf PF, s Spec) error {
	var errs []error
	if r.NoQoS && s.VLAN != nil && s.VLAN.QoS != 0 {
		errs = append(errs, fmt.Errorf("vlanQoS %d: %w: PF %s (driver %s) takes a VLAN without priority only: leave vlanQoS out", s.VLAN.QoS, ErrUnable, pf.Label(), pf.Driver))
	}
	lowest, highest := rate(s.MinTxRate), rate(s.MaxTxRate)
	if lowest > highest && highest != 0 {
		errs = append(errs, fmt.Errorf("min_tx_rate %d: %w: it is above max_tx_rate %d", lowest, ErrInvalid, highest))
	}
	if lowest != 0 {
		if err := r.minimum(pf, lowest); err != nil {
			errs = append(errs, err)
		}
	}
	if highest != 0 {
		if why := r.refuses(pf, highest); why != "" {
			errs = append(errs, fmt.Errorf("max_tx_rate %d: %w: PF %s (driver %s) takes %s; %s", highest, ErrUnable, pf.Label(), pf.Driver, r.Range(pf), why))
		}
	}
	return errors.Join(errs...)
}

func rate(p *uint32) uint32 {
	if p == nil {
		return 0
	}
	return *p
}

func (r Rules) minimum(pf PF, lowest uint32) error {
	switch {
	case r.MinRate == No:
		return fmt.Errorf("min_tx_rate %d: %w: PF %s (driver %s) has no min_tx_rate: leave it out", lowest, ErrUnable, pf.Label(), pf.Driver)
	case r.UpToLink && pf.SpeedMbps > 0 && int64(lowest) > int64(pf.SpeedMbps):
		return fmt.Errorf("min_tx_rate %d: %w: PF %s (driver %s) takes no more than the speed of its link, %d Mb/s", lowest, ErrUnable, pf.Label(), pf.Driver, pf.SpeedMbps)
	}
	return nil
}

// refuses says why a max_tx_rate other than 0 cannot be set as things are.
func (r Rules) refuses(pf PF, highest uint32) string {
	switch {
	case r.NeedsLink && !pf.Carrier:
		return "it has no link now"
	case r.OnlyAt != 0 && pf.SpeedMbps > 0 && pf.SpeedMbps != r.OnlyAt:
		return fmt.Sprintf("it runs at %d Mb/s now", pf.SpeedMbps)
	case highest < r.Lowest && !r.Raises:
		return fmt.Sprintf("ask for %d or more", r.Lowest)
	case r.UpToLink && pf.SpeedMbps > 0 && int64(highest) > int64(pf.SpeedMbps):
		return fmt.Sprintf("ask for %d or less", pf.SpeedMbps)
	}
	return ""
}
