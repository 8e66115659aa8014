package membership

import (
	"maps"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/trouble"
	"github.com/culvert-net/culvert/internal/vf"
)

// linkState is the part of a PF's link that the NodeState and events show. They show a flapping
// link only as flapping, so that it makes few writes and events.
type linkState struct{ up, carrier, flapping bool }

// health is the part of a node's health that a NodeState shows at once.
type health struct {
	links map[vf.PCIAddr]linkState // by PF
	vfs   map[vf.ID]string         // the reason why a VF is not healthy
}

// hasNewHealth reports whether since the last call a PF came, went, or its link changed, or a VF went
// into quarantine, lost its carrier or its driver, or recovered. A NodeState with such a change does
// not wait for writeInterval.
func (m *Member) hasNewHealth() bool {
	pfs := m.Node.Inventory.PFs()
	now := health{links: map[vf.PCIAddr]linkState{}, vfs: map[vf.ID]string{}}
	drivers := map[vf.ID]string{}
	for _, pf := range pfs {
		now.links[pf.PCI] = linkState{pf.Up && !pf.Flapping, pf.Carrier && !pf.Flapping, pf.Flapping}
		for _, v := range pf.VFs {
			drivers[v.ID] = v.Driver
		}
	}
	records, err := m.Node.Records()
	if err != nil {
		return false // the status cannot be read either
	}
	for _, r := range records {
		driver, listed := drivers[r.ID]
		switch {
		case r.IsAside():
			now.vfs[r.ID] = "quarantined"
		case m.Node.VFs.IsDark(r):
			now.vfs[r.ID] = "without carrier"
		case listed && driver == "" && (r.IsIdle() || r.Phase == vf.PhaseAttached):
			now.vfs[r.ID] = "without driver"
		}
	}
	isNew := m.health.links != nil && !(maps.Equal(now.links, m.health.links) && maps.Equal(now.vfs, m.health.vfs))
	m.health = now
	return isNew
}

// linkPrefix begins the names of the objects of findLinkTroubles.
const linkPrefix = "link of PF "

// findLinkTroubles adds the PFs with VFs that have no link. A PF that cannot be read, has no VFs
// or is not on the bus keeps the trouble that it had: its link has not come back.
func findLinkTroubles(out trouble.Set, pfs []api.PF, before trouble.Set) {
	judged := map[string]bool{}
	for _, pf := range pfs {
		if pf.MTU == 0 || pf.VFs.Total == 0 { // MTU 0: the link could not be read
			continue
		}
		object := linkPrefix + pf.Name
		judged[object] = true
		if t, is := trouble.JudgeLink(pf.Up, pf.Carrier, pf.Flapping); is {
			out.Add(object, t)
		}
	}
	for object, t := range before {
		if strings.HasPrefix(object, linkPrefix) && !judged[object] {
			out.Add(object, t)
		}
	}
}
