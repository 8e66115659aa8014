package vf

import (
	"fmt"
	"strings"
)

// VLANProto is the tag protocol of a VF's transparent VLAN. The zero value
// means 802.1q.
type VLANProto uint16

// Tag protocols (linux/if_ether.h ETH_P_8021Q, ETH_P_8021AD).
const (
	Dot1Q  VLANProto = 0x8100
	Dot1AD VLANProto = 0x88a8
)

// ParseVLANProto accepts 802.1q and 802.1ad in either case.
func ParseVLANProto(s string) (VLANProto, error) {
	switch strings.ToLower(s) {
	case "802.1q":
		return Dot1Q, nil
	case "802.1ad":
		return Dot1AD, nil
	}
	return 0, fmt.Errorf("%q: want 802.1q or 802.1ad", s)
}

func (p VLANProto) String() string {
	if p == Dot1AD {
		return "802.1ad"
	}
	return "802.1q"
}

// MarshalText writes 802.1q or 802.1ad.
func (p VLANProto) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads 802.1q or 802.1ad.
func (p *VLANProto) UnmarshalText(b []byte) (err error) {
	*p, err = ParseVLANProto(string(b))
	return err
}

// VLAN is a transparent VLAN: the NIC tags the frames that the VF sends, and strips the tag from
// those that it receives. ID 0 with QoS 0 means no VLAN, for any Proto. Compare with Same.
type VLAN struct {
	ID    uint16    `json:"id"`
	QoS   uint8     `json:"qos"`
	Proto VLANProto `json:"proto"`
}

// Same reports whether v and o mean the same tag. The protocol does not matter if neither has a
// VLAN, and an unset protocol means 802.1q.
func (v VLAN) Same(o VLAN) bool {
	return v.ID == o.ID && v.QoS == o.QoS && (v.String() == "none" || v.Proto.String() == o.Proto.String())
}

func (v VLAN) String() string {
	if v.ID == 0 && v.QoS == 0 {
		return "none"
	}
	s := fmt.Sprintf("%d", v.ID)
	if v.QoS != 0 {
		s += fmt.Sprintf(" qos %d", v.QoS)
	}
	if v.Proto == Dot1AD {
		s += " 802.1ad"
	}
	return s
}

// LinkState is the PF's setting for a VF's carrier (linux/if_link.h IFLA_VF_LINK_STATE_*).
type LinkState uint8

// Link states; Auto, the zero value, follows the PF's own carrier.
const (
	LinkAuto LinkState = iota
	LinkEnable
	LinkDisable
)

// ParseLinkState accepts auto, enable and disable.
func ParseLinkState(s string) (LinkState, error) {
	for _, l := range []LinkState{LinkAuto, LinkEnable, LinkDisable} {
		if l.String() == s {
			return l, nil
		}
	}
	return 0, fmt.Errorf("%q: want auto, enable or disable", s)
}

func (l LinkState) String() string { return [...]string{"auto", "enable", "disable"}[l%3] }

// MarshalText writes auto, enable or disable.
func (l LinkState) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads auto, enable or disable.
func (l *LinkState) UnmarshalText(b []byte) (err error) {
	*l, err = ParseLinkState(string(b))
	return err
}

// Admin has the PF's settings for one VF (linux/if_link.h IFLA_VF_INFO), as read back. Rates are
// in Mb/s; 0 means unlimited.
type Admin struct {
	MAC       MAC       `json:"mac"`
	VLAN      VLAN      `json:"vlan"`
	SpoofChk  Tri       `json:"spoofchk"`
	Trust     Tri       `json:"trust"`
	RSSQuery  Tri       `json:"rss_query"`
	LinkState LinkState `json:"link_state"`
	MinTxRate uint32    `json:"min_tx_rate"`
	MaxTxRate uint32    `json:"max_tx_rate"`
}

// take sets a setting of a to the value that it has in from. SetVLANProto has no value of its own.
func (a *Admin) take(s Setting, from Admin) {
	switch s {
	case SetMAC:
		a.MAC = from.MAC
	case SetVLAN:
		a.VLAN = from.VLAN
	case SetLinkState:
		a.LinkState = from.LinkState
	case SetMinTxRate:
		a.MinTxRate = from.MinTxRate
	case SetMaxTxRate:
		a.MaxTxRate = from.MaxTxRate
	default:
		if to := a.Switch(s); to != nil {
			*to = *from.Switch(s)
		}
	}
}

// isSame reports whether a setting has the same value in a and b.
func (a Admin) isSame(s Setting, b Admin) bool {
	if s == SetVLAN || s == SetVLANProto {
		return a.VLAN.Same(b.VLAN)
	}
	changed := a
	changed.take(s, b)
	return changed == a
}

// Settle returns want with the VF's present values of the settings that the PF's driver cannot
// change. Such a value is no difference: bnx2x reports a max_tx_rate of 10000 for each VF and has no
// call that sets one (bnx2x_get_vf_config).
func (s State) Settle(want Admin) Admin {
	for setting, can := range s.Can {
		if can == No {
			want.take(setting, s.Admin)
		}
	}
	return want
}

// Switch returns a pointer to the field of a that holds a setting of Switches, or nil for another
// setting.
func (a *Admin) Switch(s Setting) *Tri {
	switch s {
	case SetSpoofChk:
		return &a.SpoofChk
	case SetTrust:
		return &a.Trust
	case SetRSSQuery:
		return &a.RSSQuery
	}
	return nil
}
