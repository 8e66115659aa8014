package text

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/excerpt"
)

// Node is `culvert status`: the node's PFs and pools and what is wrong, on one
// screen.
func Node(st api.NodeStatus, o Options) string {
	var b strings.Builder
	ready := o.paint("ready", green)
	if !st.Ready {
		ready = o.paint("NOT READY", red)
	}
	fmt.Fprintf(&b, "%s  %s  culvertd %s\n", o.paint(excerpt.Clean(orDash(st.Node)), bold), ready, excerpt.Clean(orDash(st.Version)))

	b.WriteByte('\n')
	if len(st.PFs) == 0 {
		b.WriteString("No NIC here can have VFs.\n")
	}
	pfTable(st, o).write(&b, o)

	b.WriteByte('\n')
	if len(st.Pools) == 0 {
		b.WriteString(noPool)
	}
	pools := table{columns: []column{{head: "POOL"}, {head: "TYPE"}, {head: "VFS"}, {least: 20}}}
	for _, p := range st.Pools {
		pools.row(cell{text: p.Name}, cell{text: p.DeviceType}, bar(p.VFs, o), cell{text: tally(p.VFs)})
	}
	pools.write(&b, o)

	b.WriteByte('\n')
	problems(&b, st, o)
	return b.String()
}

func pfTable(st api.NodeStatus, o Options) *table {
	t := &table{columns: []column{{head: "PF"}, {head: "PCI"}, {head: "DRIVER"}, {head: "LINK"}, {head: "MTU", right: true}, {head: "VFS"}, {least: 20}}}
	if o.Wide {
		t.columns = append(t.columns, column{head: "NUMA", right: true}, column{head: "IDENTITY"})
	}
	for _, pf := range st.PFs {
		row := words(pf.Name, pf.PCI.String(), pf.Driver, "", strconv.Itoa(pf.MTU), "", made(pf))
		row[3], row[5] = link(pf), bar(pf.VFs, o)
		if o.Wide {
			row = append(row, words(node(pf.NUMA), pf.ID.String())...)
		}
		t.row(row...)
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

func link(pf api.PF) cell {
	switch {
	case !pf.Up:
		return cell{text: "down", style: yellow}
	case !pf.Carrier:
		return cell{text: "no carrier", style: red}
	case pf.SpeedMbps == 0:
		return cell{text: "up"}
	}
	return cell{text: speed(pf.SpeedMbps)}
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
	fmt.Fprintf(b, "%s\n", o.paint(fmt.Sprintf("PROBLEMS (%d)", len(problems)), bold))
	for _, p := range problems {
		since := ""
		if !p.Since.IsZero() {
			since = " (for " + ago(now.Sub(p.Since)) + ")"
		}
		problem(b, o, p, since)
	}
}

func problem(b *strings.Builder, o Options, p api.Problem, since string) {
	entry(b, o, 0, o.paint("!", red), excerpt.Clean(p.Object+": "+p.Reason+since))
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
	for i, line := range wrap(s, o.Width-indent-2-hanging) {
		if i > 0 {
			mark, line = " ", strings.Repeat(" ", hanging)+line
		}
		fmt.Fprintf(b, "%s%s %s\n", strings.Repeat(" ", indent), mark, line)
	}
}
