package vf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Limits of requests for any VF: of a VLAN's ID and priority (IEEE 802.1Q), and of an MTU. The
// least MTU is IPv4's (RFC 791), the largest fits IPv4's 16-bit length.
const (
	MaxVLAN = 4094
	MaxQoS  = 7
	MinMTU  = 68
	MaxMTU  = 65535
)

// Mistake is a setting of a Spec that is wrong on every NIC.
// errors.Is(m, ErrInvalid) holds.
type Mistake struct {
	Setting Setting // or vlanQoS or mtu
	Value   string
	Want    string // what would do: "want ..." or "needs ..."
}

func (m Mistake) Error() string {
	return fmt.Sprintf("%s %s: %s: %s", m.Setting, m.Value, ErrInvalid, m.Want)
}

// Unwrap returns ErrInvalid.
func (m Mistake) Unwrap() error { return ErrInvalid }

// Mistakes lists the settings of s that are wrong on every NIC.
func (s Spec) Mistakes() []Mistake {
	var out []Mistake
	add := func(wrong bool, setting Setting, value any, want string, args ...any) {
		if wrong {
			out = append(out, Mistake{setting, fmt.Sprint(value), fmt.Sprintf(want, args...)})
		}
	}
	if s.MAC != nil {
		add(!s.MAC.IsUnicast(), SetMAC, s.MAC.HardwareAddr(), wantUnicast)
	}
	if v := s.VLAN; v != nil {
		add(v.ID > MaxVLAN, SetVLAN, v.ID, "want 1 to %d", MaxVLAN)
		add(v.QoS > MaxQoS, setVLANQoS, v.QoS, "want 0 to %d", MaxQoS)
		add(v.ID == 0 && v.QoS != 0, setVLANQoS, v.QoS, "needs a vlan between 1 and %d", MaxVLAN)
		add(v.ID == 0 && v.Proto == Dot1AD, SetVLANProto, v.Proto, "needs a vlan between 1 and %d", MaxVLAN)
	}
	lowest, highest := valueOf(s.MinTxRate), valueOf(s.MaxTxRate)
	add(lowest > highest && highest != 0, SetMinTxRate, lowest, "want at most the maximum, %d Mb/s", highest)
	if s.MTU != nil {
		add(*s.MTU < MinMTU || *s.MTU > MaxMTU, setMTU, *s.MTU, "want %d to %d", MinMTU, MaxMTU)
	}
	return out
}

// Validate refuses a Spec that is wrong on every NIC, with all its Mistakes.
func (s Spec) Validate() error {
	var errs []error
	for _, m := range s.Mistakes() {
		errs = append(errs, m)
	}
	return errors.Join(errs...)
}

func valueOf(p *uint32) uint32 {
	if p == nil {
		return 0
	}
	return *p
}

// Fits refuses a Spec that the PF cannot fulfil at present, before anything is touched: settings
// that its driver lacks, values that the driver refuses, and an MTU above the PF's own. It lets pass
// what the VF has already: have are the PF's settings for it. declared is where people declare the
// PF, for advice. Errors are ErrUnable, or ErrInvalid for a Mistake and the MTU.
func (p PF) Fits(s Spec, have Admin, declared string) error {
	d, want, judged := DriverOf(p.Driver), s.Over(have), map[Setting]bool{}
	errs := []error{s.Validate()}
	refuse := func(what any, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%v: %w: PF %s (driver %s) %s", what, ErrUnable, p.Label(), p.Driver, fmt.Sprintf(format, args...)))
	}
	for _, setting := range s.Abilities() {
		judged[setting] = want.isSame(setting, have)
		if p.Abilities[setting] == No && !judged[setting] {
			refuse(setting, "%s", p.Abilities.describeKnown())
			judged[setting] = true
		}
	}
	if d.NoQoS && s.VLAN != nil && s.VLAN.QoS != 0 {
		refuse(fmt.Sprintf("%s %d", setVLANQoS, s.VLAN.QoS), "takes a VLAN without priority only: leave %s out", setVLANQoS)
	}
	if lowest := valueOf(s.MinTxRate); lowest != 0 && !judged[SetMinTxRate] {
		if why := p.refusesMinimum(d, lowest); why != "" {
			refuse(fmt.Sprintf("%s %d", SetMinTxRate, lowest), "%s", why)
		}
	}
	if highest := valueOf(s.MaxTxRate); highest != 0 && !judged[SetMaxTxRate] {
		if why := p.refusesMaximum(d, highest); why != "" {
			refuse(fmt.Sprintf("%s %d", SetMaxTxRate, highest), "takes %s; %s", p.RateRange(), why)
		}
	}
	if s.MTU != nil && p.MTU != 0 && *s.MTU > p.MTU {
		raise := "raise its mtu in " + declared
		if p.Master.SetsMTU() {
			raise = fmt.Sprintf("raise the MTU of %s, of which the PF is a member,", p.Master.Name)
		}
		errs = append(errs, fmt.Errorf("%s %d: %w: PF %s has MTU %d: %s or ask for at most %d", setMTU, *s.MTU, ErrInvalid, p.Label(), p.MTU, raise, p.MTU))
	}
	return errors.Join(errs...)
}

// LowerMTU returns a Spec with the PF's MTU if it asks for a larger one, and whether it does.
func (p PF) LowerMTU(s Spec) (Spec, bool) {
	if s.MTU == nil || p.MTU == 0 || *s.MTU <= p.MTU {
		return s, false
	}
	s.MTU = &p.MTU
	return s, true
}

// refusesMinimum returns the reason why a min_tx_rate other than 0 cannot be set at present.
func (p PF) refusesMinimum(d Driver, lowest uint32) string {
	switch {
	case slices.Contains(d.Lacks, SetMinTxRate):
		return "has no min_tx_rate: leave it out"
	case d.UpToLink && p.SpeedMbps > 0 && int64(lowest) > int64(p.SpeedMbps):
		return fmt.Sprintf("takes no more than the speed of its link, %d Mb/s", p.SpeedMbps)
	}
	return ""
}

// refusesMaximum returns the reason why a max_tx_rate other than 0 cannot be set at present.
func (p PF) refusesMaximum(d Driver, highest uint32) string {
	switch {
	case d.NeedsLink && !p.Carrier:
		return "it has no link now"
	case d.OnlyAt != 0 && p.SpeedMbps > 0 && p.SpeedMbps != d.OnlyAt:
		return fmt.Sprintf("it runs at %d Mb/s now", p.SpeedMbps)
	case highest < d.Lowest && !d.Raises:
		return fmt.Sprintf("ask for %d or more", d.Lowest)
	case d.UpToLink && p.SpeedMbps > 0 && int64(highest) > int64(p.SpeedMbps):
		return fmt.Sprintf("ask for %d or less", p.SpeedMbps)
	}
	return ""
}

// describeKnown describes the settings that a driver can set, as far as is known.
func (a Abilities) describeKnown() string {
	var has []string
	for _, s := range Settings() {
		if a[s] == Yes {
			has = append(has, string(s))
		}
	}
	if len(has) == 0 {
		return "has no such setting"
	}
	return "can set " + strings.Join(has, ", ")
}
