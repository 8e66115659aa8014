package step

import "github.com/culvert-net/culvert/internal/vf"

// AdminChanges turns what a PF holds for one of its VFs from have into want, one
// step for each setting that differs. Settings that the driver cannot tell
// (vf.Unknown) are left alone. The MAC is not among them: to take effect it
// needs the VF's driver bound anew (SetVFMAC).
func AdminChanges(pf vf.PCIAddr, index int, have, want vf.Admin) []Step {
	var out []Step
	if !have.VLAN.Same(want.VLAN) {
		out = append(out, SetVFVLAN{PF: pf, Index: index, VLAN: want.VLAN})
	}
	for _, name := range vf.Switches() {
		if to := *want.Switch(name); to != vf.Unknown && to != *have.Switch(name) {
			out = append(out, SetVFSwitch{PF: pf, Index: index, Setting: name, On: to == vf.Yes})
		}
	}
	if have.LinkState != want.LinkState {
		out = append(out, SetVFLinkState{PF: pf, Index: index, State: want.LinkState})
	}
	if have.MinTxRate != want.MinTxRate || have.MaxTxRate != want.MaxTxRate {
		out = append(out, SetVFRate{PF: pf, Index: index, Min: want.MinTxRate, Max: want.MaxTxRate})
	}
	return out
}
