package text

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/excerpt"
	"github.com/culvert-net/culvert/screen"
)

// Node is `culvert status`: the node's PFs and pools and what is wrong, on one
// screen.
func Node(st api.NodeStatus, o Options) string {
	var b strings.Builder
	ready := o.Paint("ready", screen.Green)
	if !st.Ready {
		ready = o.Paint("NOT READY", screen.Red)
	}
	fmt.Fprintf(&b, "%s  %s  culvertd %s\n", o.Paint(excerpt.Clean(cmp.Or(st.Node, "-")), screen.Bold), ready, excerpt.Clean(cmp.Or(st.Version, "-")))

	b.WriteByte('\n')
	if len(st.PFs) == 0 {
		b.WriteString("No NIC here can have VFs.\n")
	}
	pfTable(st, o).Write(&b, o.Look)

	b.WriteByte('\n')
	if len(st.Pools) == 0 {
		b.WriteString(noPool)
	}
	pools := screen.Table{Columns: []screen.Column{{Head: "POOL"}, {Head: "TYPE"}, {Head: "VFS"}, {Least: 20}}}
	for _, p := range st.Pools {
		pools.Add(screen.Cell{Text: p.Name}, screen.Cell{Text: poolType(p)}, bar(p.VFs, o), screen.Cell{Text: tally(p.VFs)})
	}
	pools.Write(&b, o.Look)

	b.WriteByte('\n')
	problems(&b, st, o)
	writeWarnings(&b, st.VFs, o)
	return b.String()
}

// writeWarnings tells what of networks was accepted and may not be meant, once for each network
// with the first of its owners.
func writeWarnings(b *strings.Builder, vfs []api.VF, o Options) {
	type warning struct{ network, text string }
	owners := map[warning]int{}
	var all []warning
	first := map[warning]string{}
	for _, v := range vfs {
		for _, text := range v.Warnings {
			w := warning{v.Network, text}
			if owners[w]++; owners[w] == 1 {
				all = append(all, w)
				first[w] = v.Name
				if v.Owner != nil {
					first[w] = v.Owner.String()
				}
			}
		}
	}
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", o.Paint(fmt.Sprintf("WARNINGS (%d)", len(all)), screen.Bold))
	for _, w := range all {
		who := first[w]
		if n := owners[w]; n > 1 {
			who = fmt.Sprintf("%s and %d more", who, n-1)
		}
		entry(b, o, 0, o.Paint("!", screen.Yellow), excerpt.Clean(fmt.Sprintf("network %s (%s): %s", w.network, who, w.text)))
	}
}

func pfTable(st api.NodeStatus, o Options) *screen.Table {
	t := &screen.Table{Columns: []screen.Column{{Head: "PF"}, {Head: "PCI"}, {Head: "DRIVER"}, {Head: "LINK"}, {Head: "MTU", Right: true}, {Head: "VFS"}, {Least: 20}}}
	if o.Wide {
		t.Columns = append(t.Columns, screen.Column{Head: "NUMA", Right: true}, screen.Column{Head: "IDENTITY"})
	}
	for _, pf := range st.PFs {
		row := screen.Words(pf.Name, pf.PCI.String(), pf.Driver, "", strconv.Itoa(pf.MTU), "", made(pf))
		row[3], row[5] = link(pf), bar(pf.VFs, o)
		if o.Wide {
			row = append(row, screen.Words(node(pf.NUMA), pf.ID.String())...)
		}
		t.Add(row...)
	}
	return t
}

// node is a NUMA node or IOMMU group.
func node(n int) string {
	if n < 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

func link(pf api.PF) screen.Cell {
	switch {
	case !pf.Up:
		return screen.Cell{Text: "down", Style: screen.Yellow}
	case !pf.Carrier:
		return screen.Cell{Text: "no carrier", Style: screen.Red}
	case pf.SpeedMbps == 0:
		return screen.Cell{Text: "up"}
	}
	return screen.Cell{Text: speed(pf.SpeedMbps)}
}

func speed(mbps int) string {
	if mbps >= 1000 {
		return strconv.FormatFloat(float64(mbps)/1000, 'f', -1, 64) + " Gb/s"
	}
	return strconv.Itoa(mbps) + " Mb/s"
}

// made says how many VFs there are, and how many there could or should be.
func made(pf api.PF) string {
	switch {
	case pf.WantedVFs != nil && *pf.WantedVFs != pf.VFs.Total:
		return fmt.Sprintf("%s, %d wanted", tally(pf.VFs), *pf.WantedVFs)
	case pf.VFs.Total == 0:
		return fmt.Sprintf("none, it can have %d", pf.TotalVFs)
	}
	return tally(pf.VFs)
}

func problems(b *strings.Builder, st api.NodeStatus, o Options) {
	switch {
	case len(st.Problems) > 0:
	case st.Ready:
		b.WriteString("Nothing is wrong.\n")
		return
	default:
		b.WriteString("culvertd does not serve yet: journalctl -u culvertd\n")
		return
	}
	problemList(b, st.Problems, st.Time, o)
}

// problemList tells what is wrong, with the next step of each.
func problemList(b *strings.Builder, problems []api.Problem, now time.Time, o Options) {
	fmt.Fprintf(b, "%s\n", o.Paint(fmt.Sprintf("PROBLEMS (%d)", len(problems)), screen.Bold))
	for _, p := range problems {
		since := ""
		if !p.Since.IsZero() {
			since = " (for " + screen.Ago(now.Sub(p.Since)) + ")"
		}
		problem(b, o, p, since)
	}
}

func problem(b *strings.Builder, o Options, p api.Problem, since string) {
	entry(b, o, 0, o.Paint("!", screen.Red), excerpt.Clean(p.Object+": "+p.Reason+since))
	if p.Next != "" {
		entry(b, o, 2, "", excerpt.Clean("next: "+p.Next))
	}
}

// entry writes a wrapped paragraph, indented, behind a mark of one column or
// none.
func entry(b *strings.Builder, o Options, indent int, mark, s string) {
	if mark == "" {
		mark = " "
	}
	const hanging = 2
	for i, line := range screen.Wrap(s, o.Width-indent-2-hanging) {
		if i > 0 {
			mark, line = " ", strings.Repeat(" ", hanging)+line
		}
		fmt.Fprintf(b, "%s%s %s\n", strings.Repeat(" ", indent), mark, line)
	}
}
