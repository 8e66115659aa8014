package vf

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Tri is yes, no or unknown: the kernel's answer about a setting or an ability that a driver may
// not have. The zero value is Unknown.
type Tri uint8

// The three answers.
const (
	Unknown Tri = iota
	No
	Yes
)

// TriOf returns Yes or No.
func TriOf(b bool) Tri {
	if b {
		return Yes
	}
	return No
}

func (t Tri) String() string { return [...]string{"unknown", "no", "yes"}[t%3] }

// MarshalText writes yes, no or unknown.
func (t Tri) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads yes, no or unknown.
func (t *Tri) UnmarshalText(b []byte) error {
	for _, v := range []Tri{Unknown, No, Yes} {
		if v.String() == string(b) {
			*t = v
			return nil
		}
	}
	return fmt.Errorf("%q: want yes, no or unknown", b)
}

// Setting names a per-VF setting that the PF's driver may or may not have.
type Setting string

// The settings, by their names in the kernel's uapi (linux/if_link.h,
// IFLA_VF_*) as people write them in a network configuration.
const (
	SetMAC       Setting = "mac"
	SetVLAN      Setting = "vlan"
	SetVLANProto Setting = "vlanProto" // 802.1ad; plain 802.1q is SetVLAN
	SetSpoofChk  Setting = "spoofchk"
	SetTrust     Setting = "trust"
	SetLinkState Setting = "link_state"
	SetMinTxRate Setting = "min_tx_rate"
	SetMaxTxRate Setting = "max_tx_rate"
	SetRSSQuery  Setting = "rss_query"
)

// Settings that every driver has, or that no driver has by itself. A Mistake may name them.
const (
	setVLANQoS Setting = "vlanQoS"
	setMTU     Setting = "mtu"
)

// Flag returns the setting's name at the command line and in a guest's XML.
func (s Setting) Flag() string {
	switch s {
	case SetVLANProto:
		return "vlan-proto"
	case setVLANQoS:
		return "vlan-qos"
	}
	return strings.ReplaceAll(string(s), "_", "-")
}

// Settings lists all settings in the order in which people see them.
func Settings() []Setting {
	return []Setting{SetMAC, SetVLAN, SetVLANProto, SetSpoofChk, SetTrust, SetLinkState, SetMinTxRate, SetMaxTxRate, SetRSSQuery}
}

// Switches lists the settings that are on or off.
func Switches() []Setting { return []Setting{SetSpoofChk, SetTrust, SetRSSQuery} }

// Abilities says which settings a PF's driver has. A setting that is not in the map is Unknown:
// it has not been probed yet, and the answer comes with the first use.
type Abilities map[Setting]Tri

// MarshalJSON writes every setting, so that a reader sees the unknown ones.
func (a Abilities) MarshalJSON() ([]byte, error) {
	all := make(map[Setting]Tri, len(Settings()))
	for _, s := range Settings() {
		all[s] = a[s]
	}
	return json.Marshal(all)
}
