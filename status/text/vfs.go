package text

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// VFs is `culvert vf list`: one line for each VF. now is the time of the
// picture. Those of a cluster have their node, and no settings: these are on the
// node.
func VFs(vfs []api.VF, now time.Time, o Options) string {
	if len(vfs) == 0 {
		return "No VFs.\n"
	}
	inCluster := vfs[0].Node != ""
	t := vfTable(inCluster, o)
	odd := 0
	for _, v := range vfs {
		cells := words(v.Name, v.PCI.String(), "", owner(v), v.Network, strings.Join(v.Addresses, " "))
		cells[2] = phase(v)
		if len(v.Differences) > 0 {
			odd++
		}
		switch {
		case inCluster && o.Wide:
			cells = append(cells, words(v.Netdevice, v.Pool)...)
		case o.Wide:
			cells = append(cells, words(brief(v), v.Netdevice, v.MAC.String(), v.Driver, node(v.NUMA), node(v.IOMMUGroup), v.Pool, since(v, now))...)
		case !inCluster:
			cells = append(cells, words(brief(v))...)
		}
		if inCluster {
			cells = slices.Insert(cells, 0, cell{text: v.Node})
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

func vfTable(inCluster bool, o Options) *table {
	t := &table{columns: []column{
		{head: "VF"}, {head: "PCI"}, {head: "PHASE"}, {head: "OWNER", least: 16}, {head: "NETWORK", least: 12}, {head: "ADDRESS", least: 16},
	}}
	if inCluster {
		t.columns = slices.Insert(t.columns, 0, column{head: "NODE", least: 12})
		if o.Wide {
			t.columns = append(t.columns, column{head: "NETDEV"}, column{head: "POOL"})
		}
		return t
	}
	t.columns = append(t.columns, column{head: "SETTINGS", least: 8})
	if o.Wide {
		t.columns = append(t.columns, []column{
			{head: "NETDEV"}, {head: "MAC"}, {head: "DRIVER"}, {head: "NUMA", right: true}, {head: "IOMMU", right: true}, {head: "POOL"}, {head: "FOR"},
		}...)
	}
	return t
}

func owner(v api.VF) string {
	if v.Owner == nil {
		return ""
	}
	if s := running(v); s != "" {
		return v.Owner.String() + " (" + s + ")"
	}
	return v.Owner.String()
}

// running says of a VF that a guest has whether it runs with it: QEMU has the VF open
// then. Empty for others, and on a picture of a cluster, which does not tell.
func running(v api.VF) string {
	switch {
	case v.Node != "" || v.Missing || v.Owner == nil || v.Owner.Kind != vf.OwnerGuest || v.Phase != string(journal.Attached):
		return ""
	case len(v.OpenBy) > 0:
		return "running"
	}
	return "reserved"
}

// phase of a VF, with ! when it is not as it should be.
func phase(v api.VF) cell {
	c := cell{text: v.Phase}
	switch v.Phase {
	case string(journal.Attached), api.PhaseGiven:
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
