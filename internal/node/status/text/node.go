package text

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/screen"
)

// Node draws `culvert status`: the node's PFs and pools and the problems, on one screen.
func Node(st api.NodeStatus, o Options) string {
	var b strings.Builder
	ready := o.Paint("ready", screen.Green)
	if n := len(st.Problems); n > 0 {
		ready = o.Paint("ready, with "+screen.Plural(n, "problem"), screen.Yellow)
	}
	if !st.Ready {
		ready = o.Paint("NOT READY", screen.Red)
	}
	fmt.Fprintf(&b, "%s  %s  culvertd %s\n", o.Paint(excerpt.Clean(cmp.Or(st.Node, "-")), screen.Bold), ready, excerpt.Clean(cmp.Or(st.Version, "-")))
	if st.Trial != nil {
		b.WriteString(o.Paint(o.describeTrial(*st.Trial, st.Time), screen.Yellow) + "\n")
	}

	b.WriteByte('\n')
	if len(st.PFs) == 0 {
		b.WriteString("No NIC here can have VFs.\n")
	}
	pfTable(st, o).Write(&b, o.Look)
	writeMasters(&b, st.PFs, o)

	b.WriteByte('\n')
	if len(st.Pools) == 0 {
		b.WriteString(noPool)
	}
	pools := screen.Table{Columns: []screen.Column{{Head: "POOL"}, {Head: "TYPE"}, {Head: "VFS"}, {Least: 20}}}
	for _, p := range st.Pools {
		pools.Add(screen.Cell{Text: p.Name}, screen.Cell{Text: poolType(p)}, drawBar(p.VFs, o), screen.Cell{Text: describeCounts(p.VFs)})
	}
	pools.Write(&b, o.Look)

	b.WriteByte('\n')
	if st.Services != nil {
		b.WriteString(servicesLine(*st.Services) + "\n\n")
	}
	writeProblems(&b, st, o)
	writeWarnings(&b, st.VFs, o)
	b.WriteString("\nSee also: culvert vf list, culvert events, culvert doctor.\n")
	return b.String()
}

// servicesLine says how connections to Services over VF networks are balanced.
func servicesLine(s api.ServiceBalancing) string {
	line := fmt.Sprintf("Services over VF networks: %d with %d backends, balanced for %d pods by %s", s.Services, s.Backends, s.Pods, s.Mechanism)
	if s.Why != "" {
		line += " (" + s.Why + ")"
	}
	if len(s.Before) > 0 {
		line += "; programs of other projects run before Culvert's: " + strings.Join(s.Before, ", ")
	}
	return excerpt.Clean(line)
}

// writeWarnings lists settings of networks that were accepted and may be mistakes, once for
// each network with the first of its owners.
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
		writeEntry(b, o, 0, o.Paint("!", screen.Yellow), excerpt.Clean(fmt.Sprintf("network %s (%s): %s", w.network, who, w.text)))
	}
}

func pfTable(st api.NodeStatus, o Options) *screen.Table {
	t := &screen.Table{Columns: []screen.Column{{Head: "PF"}, {Head: "PCI"}, {Head: "DRIVER"}, {Head: "LINK"}, {Head: "MTU", Right: true}, {Head: "VFS"}, {Least: 20}}}
	named := slices.ContainsFunc(st.PFs, func(pf api.PF) bool { return pf.Segment != "" })
	if named {
		t.Columns = append(t.Columns, screen.Column{Head: "SEGMENT"})
	}
	if o.Wide {
		t.Columns = append(t.Columns, screen.Column{Head: "NUMA", Right: true}, screen.Column{Head: "IDENTITY"})
	}
	for _, pf := range st.PFs {
		row := screen.Words(pf.Name, pf.PCI.String(), pf.Driver, "", strconv.Itoa(pf.MTU), "", describeMade(pf))
		row[3], row[5] = linkCell(pf), drawBar(pf.VFs, o)
		if named {
			row = append(row, screen.Cell{Text: cmp.Or(string(pf.Segment), "-")})
		}
		if o.Wide {
			row = append(row, screen.Words(formatNode(pf.NUMA), pf.ID.String())...)
		}
		t.Add(row...)
	}
	return t
}

// writeMasters lists the bonds and other interfaces of the host that have PFs as members, each with
// the effect of a fail-over on a VF.
func writeMasters(b *strings.Builder, pfs []api.PF, o Options) {
	members := map[string][]string{}
	var masters []api.PF // the first member of each
	for _, pf := range pfs {
		if pf.Master == nil {
			continue
		}
		if len(members[pf.Master.Name]) == 0 {
			masters = append(masters, pf)
		}
		members[pf.Master.Name] = append(members[pf.Master.Name], pf.Name)
	}
	for i, pf := range masters {
		if i == 0 {
			b.WriteByte('\n')
		}
		line := fmt.Sprintf("In %s of the host: %s", *pf.Master, strings.Join(members[pf.Master.Name], ", "))
		if pf.FailOver != "" {
			line += "; " + pf.FailOver
		}
		writeEntry(b, o, 0, o.Paint("-", screen.Yellow), excerpt.Clean(line))
	}
}

// formatNode returns a NUMA node or IOMMU group.
func formatNode(n int) string {
	if n < 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

func linkCell(pf api.PF) screen.Cell {
	switch {
	case pf.Flapping:
		return screen.Cell{Text: "flapping", Style: screen.Red}
	case !pf.Up:
		return screen.Cell{Text: "down", Style: screen.Yellow}
	case !pf.Carrier:
		return screen.Cell{Text: "no carrier", Style: screen.Red}
	case pf.SpeedMbps == 0:
		return screen.Cell{Text: "up"}
	}
	return screen.Cell{Text: formatSpeed(pf.SpeedMbps)}
}

func formatSpeed(mbps int) string {
	if mbps >= 1000 {
		return strconv.FormatFloat(float64(mbps)/1000, 'f', -1, 64) + " Gb/s"
	}
	return strconv.Itoa(mbps) + " Mb/s"
}

// describeMade says how many VFs there are, and how many there could or should be.
func describeMade(pf api.PF) string {
	switch {
	case pf.Owner != nil:
		return fmt.Sprintf("%s has the whole PF", pf.Owner)
	case pf.WantedVFs != nil && *pf.WantedVFs != pf.VFs.Total:
		return fmt.Sprintf("%s, %d wanted", describeCounts(pf.VFs), *pf.WantedVFs)
	case pf.VFs.Total == 0:
		return fmt.Sprintf("none, it can have %d", pf.TotalVFs)
	}
	return describeCounts(pf.VFs)
}

func writeProblems(b *strings.Builder, st api.NodeStatus, o Options) {
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

// problemList lists the problems, with the next step of each.
func problemList(b *strings.Builder, problems []api.Problem, now time.Time, o Options) {
	fmt.Fprintf(b, "%s\n", o.Paint(fmt.Sprintf("PROBLEMS (%d)", len(problems)), screen.Bold))
	for _, p := range problems {
		since := ""
		if !p.Since.IsZero() {
			since = " (for " + screen.Ago(now.Sub(p.Since)) + ")"
		}
		writeProblem(b, o, p, since)
	}
}

func writeProblem(b *strings.Builder, o Options, p api.Problem, since string) {
	writeEntry(b, o, 0, o.Paint("!", screen.Red), excerpt.Clean(p.Object+": "+p.Reason+since))
	if p.Next != "" {
		writeEntry(b, o, 2, "", excerpt.Clean("next: "+p.Next))
	}
}

// writeEntry writes a wrapped, indented paragraph after a mark of one column. If mark is empty, it
// writes a space.
func writeEntry(b *strings.Builder, o Options, indent int, mark, s string) {
	if mark == "" {
		mark = " "
	}
	const hanging = 2
	for i, line := range screen.WrapAll(s, o.Width-indent-2-hanging) {
		if i > 0 {
			mark, line = " ", strings.Repeat(" ", hanging)+line
		}
		fmt.Fprintf(b, "%s%s %s\n", strings.Repeat(" ", indent), mark, line)
	}
}
