package text

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/excerpt"
)

// Cluster is `culvert status --cluster`: all nodes, the policies, who uses which
// network, and what is wrong, on one screen.
func Cluster(st api.ClusterStatus, o Options) string {
	var b strings.Builder
	bad := 0
	for _, n := range st.Nodes {
		if !n.Ready {
			bad++
		}
	}
	fmt.Fprintf(&b, "%s  %s", o.paint(excerpt.Clean("cluster "+orDash(st.Cluster)), bold), plural(len(st.Nodes), "node"))
	if bad > 0 {
		b.WriteString(", " + o.paint(fmt.Sprintf("%d not ready", bad), red))
	}
	b.WriteString("\n\n")
	if len(st.Nodes) == 0 {
		b.WriteString("No node has told anything: does culvertd run? kubectl get pods -A -l app.kubernetes.io/name=culvertd\n")
	}
	nodeTable(st, o).write(&b, o)
	for _, t := range []*table{policyTable(st), networkTable(st)} {
		if len(t.rows) > 0 {
			b.WriteByte('\n')
		}
		t.write(&b, o)
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
	return b.String()
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func nodeTable(st api.ClusterStatus, o Options) *table {
	t := &table{columns: []column{{head: "NODE", least: 16}, {head: "STATE"}, {head: "PFS", right: true}, {head: "VFS"}, {least: 20}}}
	if o.Wide {
		t.columns = append(t.columns, column{head: "VERSION"})
	}
	for _, n := range st.Nodes {
		state := cell{text: "ready", style: green}
		switch {
		case !n.Ready:
			state = cell{text: "NOT READY", style: red}
		case len(n.Problems) > 0:
			state = cell{text: "ready !", style: yellow}
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
		row := []cell{{text: n.Node}, state, {text: strconv.Itoa(len(n.PFs))}, bar(all, o), {text: tally(all)}}
		if o.Wide {
			row = append(row, words(n.Version)...)
		}
		t.row(row...)
	}
	return t
}

func policyTable(st api.ClusterStatus) *table {
	t := &table{columns: []column{{head: "POLICY", least: 20}, {head: "PRIORITY", right: true}, {head: "NODES", right: true}, {head: "APPLIED", right: true}}}
	for _, p := range st.Policies {
		applied := cell{text: strconv.Itoa(p.Applied)}
		if p.Applied < p.Nodes {
			applied.style = yellow
		}
		t.row(cell{text: p.Name}, cell{text: strconv.Itoa(p.Priority)}, cell{text: strconv.Itoa(p.Nodes)}, applied)
	}
	return t
}

func networkTable(st api.ClusterStatus) *table {
	t := &table{columns: []column{{head: "NETWORK", least: 16}, {head: "VFS", right: true}, {head: "ADDRESSES"}, {head: "NODES", least: 12}, {head: "OWNERS", least: 16}}}
	for _, n := range st.Networks {
		t.row(words(n.Name, strconv.Itoa(n.VFs), granted(n), strings.Join(n.Nodes, " "), strings.Join(n.Owners, ", "))...)
	}
	return t
}

// granted is how many of a network's addresses are in blocks of nodes.
func granted(n api.Network) string {
	switch n.Addresses {
	case 0:
		return ""
	case math.MaxInt64:
		return fmt.Sprintf("%d granted", n.Granted)
	}
	return fmt.Sprintf("%d of %d granted", n.Granted, n.Addresses)
}
