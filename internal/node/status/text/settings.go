package text

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// setting is one attribute of a VF in four views. An empty text means that nothing is requested
// (wanted), or that there is no value to show (the others).
type setting struct {
	name                     string
	ability                  vf.Setting // empty: every VF has it
	wanted, actual, baseline string
	odd                      bool // actual and baseline differ
}

// listSettings lists the attributes of a VF as wanted, as read back and as they
// were when it was clean.
func listSettings(v api.VF) []setting {
	var w vf.Spec
	if v.Wanted != nil {
		w = *v.Wanted
	}
	a, b := v.Settings, vf.Baseline{}
	if v.Baseline != nil {
		b = *v.Baseline
	}
	all := []setting{
		{name: "mac", ability: vf.SetMAC, wanted: formatAsked(w.MAC), actual: a.MAC.String(), baseline: b.Admin.MAC.String()},
		{name: "vlan", ability: vf.SetVLAN, wanted: formatAsked(w.VLAN), actual: a.VLAN.String(), baseline: b.Admin.VLAN.String()},
		{name: "spoofchk", ability: vf.SetSpoofChk, wanted: onOff(w.SpoofChk), actual: formatSwitch(a.SpoofChk), baseline: formatSwitch(b.Admin.SpoofChk)},
		{name: "trust", ability: vf.SetTrust, wanted: onOff(w.Trust), actual: formatSwitch(a.Trust), baseline: formatSwitch(b.Admin.Trust)},
		{name: "link_state", ability: vf.SetLinkState, wanted: formatAsked(w.LinkState), actual: a.LinkState.String(), baseline: b.Admin.LinkState.String()},
		{name: "min_tx_rate", ability: vf.SetMinTxRate, wanted: rateAsked(w.MinTxRate), actual: formatRate(a.MinTxRate), baseline: formatRate(b.Admin.MinTxRate)},
		{name: "max_tx_rate", ability: vf.SetMaxTxRate, wanted: rateAsked(w.MaxTxRate), actual: formatRate(a.MaxTxRate), baseline: formatRate(b.Admin.MaxTxRate)},
		{name: "rss_query", ability: vf.SetRSSQuery, actual: formatSwitch(a.RSSQuery), baseline: formatSwitch(b.Admin.RSSQuery)},
		{name: "driver", wanted: w.Driver, actual: cmp.Or(v.Driver, "none"), baseline: b.Driver},
		{name: "mtu", wanted: formatAsked(w.MTU)},
	}
	mtu := &all[len(all)-1]
	if v.Link != nil {
		mtu.actual = fmt.Sprint(v.Link.MTU)
	}
	if b.MTU != 0 {
		mtu.baseline = fmt.Sprint(b.MTU)
	}
	for i := range all {
		s := &all[i]
		if v.Baseline == nil {
			s.baseline = ""
			continue
		}
		s.odd = s.actual != "" && s.actual != s.baseline
	}
	return all
}

// describeBriefly lists the settings in which a VF differs from its baseline, on one line: "vlan
// 100, trust on". A MAC is left out: people cannot read anything from it.
func describeBriefly(v api.VF) string {
	if v.Missing || v.Unread {
		return ""
	}
	var parts []string
	for _, s := range listSettings(v) {
		if s.odd && s.name != "mac" {
			parts = append(parts, s.name+" "+s.actual)
		}
	}
	if g := v.Guard; g != nil {
		parts = append(parts, fmt.Sprintf("guard %s (%s)", g.Name(), g.Degree))
	}
	return strings.Join(parts, ", ")
}

func formatAsked[T any](v *T) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(*v)
}

func onOff(b *bool) string {
	if b == nil {
		return ""
	}
	return formatSwitch(vf.TriOf(*b))
}

func formatSwitch(t vf.Tri) string {
	return map[vf.Tri]string{vf.Yes: "on", vf.No: "off"}[t] // empty if it is unknown
}

func rateAsked(mbps *uint32) string {
	if mbps == nil {
		return ""
	}
	return formatRate(*mbps)
}

func formatRate(mbps uint32) string {
	if mbps == 0 {
		return "unlimited"
	}
	return fmt.Sprintf("%d Mb/s", mbps)
}
