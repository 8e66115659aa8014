package text

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/internal/vf"
)

// VFs draws `culvert vf list`: one line for each VF. now is the time of the picture. The VFs of
// a cluster have their node, and no settings: these are on the node.
func VFs(vfs []api.VF, now time.Time, o Options) string { return listVFs(vfs, now, nil, o) }

// listVFs draws VFs as VFs does. With mark, each row begins with the mark of its VF, or a space.
func listVFs(vfs []api.VF, now time.Time, mark func(api.VF) string, o Options) string {
	if len(vfs) == 0 {
		return "No VFs.\n"
	}
	inCluster := vfs[0].Node != ""
	t := vfTable(inCluster, o)
	if mark != nil {
		t.Columns[0].Head = "  " + t.Columns[0].Head
	}
	odd := 0
	for _, v := range vfs {
		cells := screen.Words(v.Name, v.PCI.String(), "", formatOwner(v), v.Network, strings.Join(v.Addresses, " "))
		cells[2] = phaseCell(v)
		if len(v.Differences) > 0 {
			odd++
		}
		switch {
		case inCluster && o.Wide:
			cells = append(cells, screen.Words(v.Netdevice, v.Pool)...)
		case o.Wide:
			cells = append(cells, screen.Words(describeBriefly(v), v.Netdevice, v.MAC.String(), v.Driver, formatNode(v.NUMA), formatNode(v.IOMMUGroup), v.Pool, formatSince(v, now))...)
		case !inCluster:
			cells = append(cells, screen.Words(describeBriefly(v))...)
		}
		if inCluster {
			cells = slices.Insert(cells, 0, screen.Cell{Text: v.Node})
		}
		if mark != nil {
			cells[0] = markCell(cells[0], mark(v))
		}
		t.Add(cells...)
	}
	var b strings.Builder
	t.Write(&b, o.Look)
	if odd > 0 {
		fmt.Fprintf(&b, "\n%s not as it should be: see culvert vf show\n", o.Paint("!", screen.Red))
	}
	return b.String()
}

func vfTable(inCluster bool, o Options) *screen.Table {
	t := &screen.Table{Columns: []screen.Column{
		{Head: "VF"}, {Head: "PCI"}, {Head: "PHASE"}, {Head: "OWNER", Least: 16}, {Head: "NETWORK", Least: 12}, {Head: "ADDRESS", Least: 16},
	}}
	if inCluster {
		t.Columns = slices.Insert(t.Columns, 0, screen.Column{Head: "NODE", Least: 12})
		if o.Wide {
			t.Columns = append(t.Columns, screen.Column{Head: "NETDEV"}, screen.Column{Head: "POOL"})
		}
		return t
	}
	t.Columns = append(t.Columns, screen.Column{Head: "SETTINGS", Least: 8})
	if o.Wide {
		t.Columns = append(t.Columns, []screen.Column{
			{Head: "NETDEV"}, {Head: "MAC"}, {Head: "DRIVER"}, {Head: "NUMA", Right: true}, {Head: "IOMMU", Right: true}, {Head: "POOL"}, {Head: "FOR"},
		}...)
	}
	return t
}

func formatOwner(v api.VF) string {
	if v.Owner == nil {
		return v.UsedBy
	}
	if s := formatRunning(v); s != "" {
		return v.Owner.String() + " (" + s + ")"
	}
	if v.Bond != nil {
		return v.Owner.String() + " (bond " + v.Owner.Interface + ")"
	}
	return v.Owner.String()
}

// formatRunning returns whether a guest runs with a VF that it has: QEMU then has the VF open. It
// is empty for other VFs, and in the picture of a cluster, which does not have that.
func formatRunning(v api.VF) string {
	switch {
	case v.Node != "" || v.Missing || v.Unread || v.Owner == nil || v.Owner.Kind != vf.OwnerGuest || v.Phase != string(vf.PhaseAttached):
		return ""
	case len(v.OpenBy) > 0:
		return "running"
	}
	return "reserved"
}

// phaseCell returns the cell with the phase of a VF, with ! if the VF is not as it should be.
func phaseCell(v api.VF) screen.Cell {
	c := screen.Cell{Text: v.Phase}
	switch v.Phase {
	case string(vf.PhaseAttached), string(vf.PhasePrepared), api.PhaseGiven:
		c.Style = screen.Cyan
	case string(vf.PhaseQuarantined), string(vf.PhaseDamaged):
		c.Style = screen.Red
	case string(vf.PhaseFree):
	default:
		c.Style = screen.Yellow
	}
	if v.Missing {
		c.Text, c.Style = "missing", screen.Red
	}
	if v.Unread {
		c.Text, c.Style = c.Text+" ?", screen.Yellow
	}
	if len(v.Differences) > 0 {
		c.Text, c.Style = c.Text+" !", screen.Red
	}
	return c
}

func formatSince(v api.VF, now time.Time) string {
	if v.Since.IsZero() || v.Since.After(now.Add(clockSlack)) { // the clock was set back
		return ""
	}
	return screen.Ago(now.Sub(v.Since))
}
