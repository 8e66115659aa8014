package text

import (
	"slices"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/api"
)

const noPool = "No pool is declared: host.yaml says which there are, or a NodePolicy.\n"

// Pools is `culvert pool list`: one line for each pool.
func Pools(pools []api.Pool, o Options) string {
	if len(pools) == 0 {
		return noPool
	}
	t := table{columns: []column{
		{head: "POOL", least: 20}, {head: "TYPE"}, {head: "VFS", right: true}, {head: "USED", right: true}, {head: "FREE", right: true},
		{head: "QUARANTINED", right: true}, {head: "PFS", least: 12},
	}}
	if o.Wide {
		t.columns = append(t.columns, column{head: "MEMBERS"})
	}
	inCluster := pools[0].Node != ""
	if inCluster {
		t.columns = slices.Insert(t.columns, 0, column{head: "NODE", least: 12})
	}
	for _, p := range pools {
		cells := words(p.Name, p.DeviceType, strconv.Itoa(p.VFs.Total), strconv.Itoa(p.VFs.Used), strconv.Itoa(p.VFs.Free),
			strconv.Itoa(p.VFs.Quarantined), strings.Join(p.PFs, " "))
		if o.Wide {
			cells = append(cells, words(strings.Join(p.Members, " "))...)
		}
		if inCluster {
			cells = slices.Insert(cells, 0, cell{text: p.Node})
		}
		t.row(cells...)
	}
	var b strings.Builder
	t.write(&b, o)
	return b.String()
}
