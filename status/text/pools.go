package text

import (
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/api"
)

// Pools is `culvert pool list`: one line for each pool.
func Pools(pools []api.Pool, o Options) string {
	if len(pools) == 0 {
		return "No pool is declared in /etc/culvert/host.yaml.\n"
	}
	t := table{columns: []column{
		{head: "POOL"}, {head: "TYPE"}, {head: "VFS", right: true}, {head: "USED", right: true}, {head: "FREE", right: true},
		{head: "QUARANTINED", right: true}, {head: "PFS", least: 12},
	}}
	if o.Wide {
		t.columns = append(t.columns, column{head: "MEMBERS"})
	}
	for _, p := range pools {
		cells := words(p.Name, p.DeviceType, strconv.Itoa(p.VFs.Total), strconv.Itoa(p.VFs.Used), strconv.Itoa(p.VFs.Free),
			strconv.Itoa(p.VFs.Quarantined), strings.Join(p.PFs, " "))
		if o.Wide {
			cells = append(cells, words(strings.Join(p.Members, " "))...)
		}
		t.row(cells...)
	}
	var b strings.Builder
	t.write(&b, o)
	return b.String()
}
