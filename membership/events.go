package membership

import (
	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/trouble"
)

// findTroubles returns the VFs in quarantine and the parts of the wanted Spec that are
// not applied.
func findTroubles(n api.NodeStatus, pending []api.Problem) trouble.Set {
	out := trouble.Set{}
	for _, v := range n.VFs {
		if v.Phase != string(journal.Quarantined) {
			continue
		}
		text := "it is in quarantine, nobody gets it: " + v.Reason
		if v.Owner != nil && !v.Owner.IsZero() {
			text += "; last held by " + v.Owner.String()
		}
		out.Add("VF "+v.Name+" ("+v.PCI.String()+")", trouble.Trouble{Begins: "Quarantined", Ends: "Recovered", Text: text})
	}
	for _, p := range pending {
		out.Add(p.Object, trouble.Trouble{Begins: "NotAsWanted", Ends: "AsWanted", Text: p.Reason})
	}
	return out
}
