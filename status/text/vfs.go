package text

import (
	"fmt"
	"strings"
	"time"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/journal"
)

// VFs is `culvert vf list`: one line for each VF. now is the time of the
// picture.
func VFs(vfs []api.VF, now time.Time, o Options) string {
	if len(vfs) == 0 {
		return "No VFs.\n"
	}
	t := table{columns: []column{
		{head: "VF"}, {head: "PCI"}, {head: "PHASE"}, {head: "OWNER", least: 16},
		{head: "NETWORK", least: 12}, {head: "ADDRESS", least: 16}, {head: "SETTINGS", least: 8},
	}}
	if o.Wide {
		t.columns = append(t.columns, []column{
			{head: "NETDEV"}, {head: "MAC"}, {head: "DRIVER"}, {head: "NUMA", right: true}, {head: "IOMMU", right: true}, {head: "POOL"}, {head: "FOR"},
		}...)
	}
	odd := 0
	for _, v := range vfs {
		cells := words(v.Name, v.PCI.String(), "", owner(v), v.Network, strings.Join(v.Addresses, " "), brief(v))
		cells[2] = phase(v)
		if len(v.Differences) > 0 {
			odd++
		}
		if o.Wide {
			cells = append(cells, words(v.Netdevice, v.MAC.String(), v.Driver, node(v.NUMA), node(v.IOMMUGroup), v.Pool, since(v, now))...)
		}
		t.row(cells...)
	}
	var b strings.Builder
	t.write(&b, o)
	if odd > 0 {
		fmt.Fprintf(&b, "\n%s not as it should be: see culvert vf show\n", o.paint("!", red))
	}
	return b.String()
}

func owner(v api.VF) string {
	if v.Owner == nil {
		return ""
	}
	return v.Owner.String()
}

// phase of a VF, with ! when it is not as it should be.
func phase(v api.VF) cell {
	c := cell{text: v.Phase}
	switch v.Phase {
	case string(journal.Attached):
		c.style = cyan
	case string(journal.Quarantined), string(journal.Damaged):
		c.style = red
	case string(journal.Free):
	default:
		c.style = yellow
	}
	if v.Missing {
		c.text, c.style = "missing", red
	}
	if len(v.Differences) > 0 {
		c.text, c.style = c.text+" !", red
	}
	return c
}

func since(v api.VF, now time.Time) string {
	if v.Since.IsZero() || v.Since.After(now.Add(clockSlack)) { // the clock was set back
		return ""
	}
	return ago(now.Sub(v.Since))
}
