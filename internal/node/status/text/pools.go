package text

import (
	"slices"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/screen"
)

const noPool = "No pool is declared: host.yaml says which there are, or a NodePolicy.\n"

// Pools draws `culvert pool list`: one line for each pool.
func Pools(pools []api.Pool, o Options) string {
	if len(pools) == 0 {
		return noPool
	}
	t := screen.Table{Columns: []screen.Column{
		{Head: "POOL", Least: 20}, {Head: "TYPE"}, {Head: "VFS", Right: true}, {Head: "USED", Right: true}, {Head: "FREE", Right: true},
		{Head: "QUARANTINED", Right: true}, {Head: "PFS", Least: 12},
	}}
	if o.Wide {
		t.Columns = append(t.Columns, screen.Column{Head: "MEMBERS"})
	}
	inCluster := pools[0].Node != ""
	if inCluster {
		t.Columns = slices.Insert(t.Columns, 0, screen.Column{Head: "NODE", Least: 12})
	}
	for _, p := range pools {
		cells := screen.Words(p.Name, poolType(p), strconv.Itoa(p.VFs.Total), strconv.Itoa(p.VFs.Used), strconv.Itoa(p.VFs.Free),
			strconv.Itoa(p.VFs.Quarantined), strings.Join(p.PFs, " "))
		if o.Wide {
			cells = append(cells, screen.Words(strings.Join(p.Members, " "))...)
		}
		if inCluster {
			cells = slices.Insert(cells, 0, screen.Cell{Text: p.Node})
		}
		t.Add(cells...)
	}
	var b strings.Builder
	t.Write(&b, o.Look)
	return b.String()
}

// poolType returns the kind of VFs that a pool gives out, and the way if they go to ResourceClaims.
func poolType(p api.Pool) string {
	switch {
	case p.Unserved != "":
		return "not served"
	case p.Offer == string(desired.OfferClaims):
		return p.DeviceType + " (" + p.Offer + ")"
	default:
		return p.DeviceType
	}
}
