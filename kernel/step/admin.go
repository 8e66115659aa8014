package step

import "github.com/culvert-net/culvert/vf"

// AdminChanges turns what a PF holds for one of its VFs from have into want, one
// step for each setting that differs. Settings that the driver cannot tell
// (vf.Unknown) are left alone. The MAC is not among them: to take effect it
// needs the VF's driver bound anew (SetVFMAC).
func AdminChanges(pf vf.PCIAddr, index int, have, want vf.Admin) []Step {
	var out []Step
	if !have.VLAN.Same(want.VLAN) {
		out = append(out, SetVFVLAN{PF: pf, Index: index, VLAN: want.VLAN})
	}
	if differs(have.SpoofChk, want.SpoofChk) {
		out = append(out, SetVFSpoofChk{PF: pf, Index: index, On: want.SpoofChk == vf.Yes})
	}
	if differs(have.Trust, want.Trust) {
		out = append(out, SetVFTrust{PF: pf, Index: index, On: want.Trust == vf.Yes})
	}
	if differs(have.RSSQuery, want.RSSQuery) {
		out = append(out, SetVFRSSQuery{PF: pf, Index: index, On: want.RSSQuery == vf.Yes})
	}
	if have.LinkState != want.LinkState {
		out = append(out, SetVFLinkState{PF: pf, Index: index, State: want.LinkState})
	}
	if have.MinTxRate != want.MinTxRate || have.MaxTxRate != want.MaxTxRate {
		out = append(out, SetVFRate{PF: pf, Index: index, Min: want.MinTxRate, Max: want.MaxTxRate})
	}
	return out
}

func differs(have, want vf.Tri) bool { return want != vf.Unknown && have != want }
