package membership

import (
	"fmt"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/trouble"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// findTroubles returns the VFs that pods cannot get or that have no carrier, and the parts of the
// wanted Spec that are not applied.
func findTroubles(n api.NodeStatus, pending []api.Problem) trouble.Set {
	out := trouble.Set{}
	for _, v := range n.VFs {
		if v.NoCarrier {
			out.Add("carrier of VF "+v.Name+" ("+v.PCI.String()+")", trouble.Trouble{Begins: reasons.VFNoCarrier, Ends: reasons.VFCarrier,
				Text: fmt.Sprintf("its interface in %s is up and has no carrier, although PF %s has a link", v.Owner, v.PF)})
		}
		if v.Phase == api.PhaseOutside {
			out.Add("VF "+v.Name+" ("+v.PCI.String()+")", trouble.Trouble{Begins: reasons.UsedOutside, Ends: reasons.UseEnded, Text: "it is used outside Culvert, and given to no owner: " + v.UsedBy})
		}
		if !vf.Phase(v.Phase).IsAside(v.Attempts) {
			continue
		}
		text := "it is in quarantine and given to no owner: " + v.Reason
		if v.Owner != nil && !v.Owner.IsZero() {
			text += "; last held by " + v.Owner.String()
		}
		out.Add("VF "+v.Name+" ("+v.PCI.String()+")", trouble.Trouble{Begins: reasons.Quarantined, Ends: reasons.Recovered, Text: text})
	}
	for _, p := range pending {
		out.Add(p.Object, trouble.Trouble{Begins: reasons.NotAsWanted, Ends: reasons.AsWanted, Text: p.Reason})
	}
	return out
}

// addSegments adds the pools over PFs that do not hear each other.
func addSegments(out trouble.Set, pools []api.Problem) {
	for _, p := range pools {
		out.Add(p.Object, trouble.Trouble{Begins: reasons.PFsDoNotHearEachOther, Ends: reasons.PFsHearEachOther, Text: p.Reason})
	}
}

// addFaults adds the devices that had errors lately.
func addFaults(out trouble.Set, faults []api.Problem) {
	for _, p := range faults {
		out.Add(p.Object, trouble.Trouble{Begins: reasons.DeviceErrors, Ends: reasons.NoDeviceErrors, Text: p.Reason})
	}
}
