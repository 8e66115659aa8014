package gather

import (
	"context"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// addTraffic adds the counters of the VFs. Those of a netdevice came with its link. It asks the driver
// of a PF only if the PF has a VF in use without a netdevice, since many drivers answer by asking the
// NIC about each VF.
func (g *Gatherer) addTraffic(ctx context.Context, st api.NodeStatus) {
	read := map[vf.PFID]map[int]vf.Traffic{}
	for _, pf := range st.PFs {
		if !hasHiddenVF(st.VFs, pf.ID) {
			continue
		}
		counters, err := g.Kernel.VFTraffic(ctx, pf.PCI)
		if err != nil {
			g.Log.Debug("the counters of VFs without a netdevice are not known", "pf", pf.Label(), "err", err)
		}
		read[pf.ID] = counters
	}
	for i := range st.VFs {
		v := &st.VFs[i]
		if v.Link != nil {
			v.Traffic = &v.Link.Traffic
		} else if t, ok := read[v.ID.PF][v.Index]; ok {
			v.Traffic = &t
		}
	}
}

// hasHiddenVF reports whether a PF has a VF with an owner or another user, and without a netdevice that
// was read.
func hasHiddenVF(vfs []api.VF, pf vf.PFID) bool {
	for _, v := range vfs {
		if v.ID.PF == pf && v.Link == nil && !v.Missing && (v.Owner != nil || v.UsedBy != "") {
			return true
		}
	}
	return false
}
