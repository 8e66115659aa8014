package text

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/screen"
)

// Cluster draws `culvert status --cluster`: all nodes, the policies, the users of each network,
// and the problems, on one screen.
func Cluster(st api.ClusterStatus, o Options) string {
	var b strings.Builder
	bad := 0
	for _, n := range st.Nodes {
		if !n.Ready {
			bad++
		}
	}
	fmt.Fprintf(&b, "%s  %s", o.Paint(excerpt.Clean("cluster "+cmp.Or(st.Cluster, "-")), screen.Bold), screen.Plural(len(st.Nodes), "node"))
	if bad > 0 {
		b.WriteString(", " + o.Paint(fmt.Sprintf("%d not ready", bad), screen.Red))
	}
	b.WriteString("\n\n")
	if len(st.Nodes) == 0 {
		b.WriteString("No node has reported: does culvertd run? kubectl get pods -A -l app.kubernetes.io/name=culvertd\n")
	}
	nodeTable(st, o).Write(&b, o.Look)
	for _, t := range []*screen.Table{policyTable(st), networkTable(st)} {
		t.WriteBelow(&b, o.Look)
	}
	b.WriteByte('\n')
	all := slices.Clone(st.Problems)
	for _, n := range st.Nodes {
		for _, p := range n.Problems {
			p.Object = n.Node + ": " + p.Object
			all = append(all, p)
		}
	}
	switch {
	case len(all) > 0:
		problemList(&b, all, st.Time, o)
	case bad == 0 && len(st.Nodes) > 0:
		b.WriteString("Nothing is wrong.\n")
	}
	var vfs []api.VF
	for _, n := range st.Nodes {
		vfs = append(vfs, n.VFs...)
	}
	writeWarnings(&b, vfs, o)
	return b.String()
}

func nodeTable(st api.ClusterStatus, o Options) *screen.Table {
	t := &screen.Table{Columns: []screen.Column{{Head: "NODE", Least: 16}, {Head: "STATE"}, {Head: "PFS", Right: true}, {Head: "VFS"}, {Least: 20}}}
	if o.Wide {
		t.Columns = append(t.Columns, screen.Column{Head: "VERSION"})
	}
	for _, n := range st.Nodes {
		state := screen.Cell{Text: "ready", Style: screen.Green}
		switch {
		case !n.Ready:
			state = screen.Cell{Text: "NOT READY", Style: screen.Red}
		case len(n.Problems) > 0:
			state = screen.Cell{Text: "ready !", Style: screen.Yellow}
		}
		var all api.Counts
		for _, pf := range n.PFs {
			all.Total += pf.VFs.Total
			all.Used += pf.VFs.Used
			all.Free += pf.VFs.Free
			all.Quarantined += pf.VFs.Quarantined
			all.Making += pf.VFs.Making
			all.Unmanaged += pf.VFs.Unmanaged
		}
		row := []screen.Cell{{Text: n.Node}, state, {Text: strconv.Itoa(len(n.PFs))}, drawBar(all, o), {Text: describeCounts(all)}}
		if o.Wide {
			row = append(row, screen.Words(n.Version)...)
		}
		t.Add(row...)
	}
	return t
}

func policyTable(st api.ClusterStatus) *screen.Table {
	t := &screen.Table{Columns: []screen.Column{{Head: "POLICY", Least: 20}, {Head: "PRIORITY", Right: true}, {Head: "NODES", Right: true}, {Head: "APPLIED", Right: true}}}
	for _, p := range st.Policies {
		applied := screen.Cell{Text: strconv.Itoa(p.Applied)}
		if p.Applied < p.Nodes {
			applied.Style = screen.Yellow
		}
		t.Add(screen.Cell{Text: p.Name}, screen.Cell{Text: strconv.Itoa(p.Priority)}, screen.Cell{Text: strconv.Itoa(p.Nodes)}, applied)
	}
	return t
}

func networkTable(st api.ClusterStatus) *screen.Table {
	t := &screen.Table{Columns: []screen.Column{{Head: "NETWORK", Least: 16}, {Head: "VFS", Right: true}, {Head: "ADDRESSES"}, {Head: "NODES", Least: 12}, {Head: "OWNERS", Least: 16}}}
	for _, n := range st.Networks {
		t.Add(screen.Words(n.Name, strconv.Itoa(n.VFs), describeGranted(n), strings.Join(n.Nodes, " "), strings.Join(n.Owners, ", "))...)
	}
	return t
}

// describeGranted returns how many of a network's addresses are in blocks of nodes.
func describeGranted(n api.Network) string {
	switch n.Addresses {
	case 0:
		return ""
	case math.MaxInt64:
		return fmt.Sprintf("%d granted", n.Granted)
	}
	return fmt.Sprintf("%d of %d granted", n.Granted, n.Addresses)
}
