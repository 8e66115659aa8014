package text

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/api"
)

// Node is `culvert status`: the node's PFs and pools and what is wrong, on one
// screen.
func Node(st api.NodeStatus, o Options) string {
	var b strings.Builder
	ready := o.paint("ready", green)
	if !st.Ready {
		ready = o.paint("NOT READY", red)
	}
	fmt.Fprintf(&b, "%s  %s  culvertd %s\n", o.paint(clean(orDash(st.Node)), bold), ready, clean(orDash(st.Version)))

	b.WriteByte('\n')
	if len(st.PFs) == 0 {
		b.WriteString("No NIC here can have VFs.\n")
	}
	pfs := table{columns: []column{{head: "PF"}, {head: "PCI"}, {head: "DRIVER"}, {head: "NUMA", right: true}, {head: "LINK"}, {head: "MTU", right: true}, {head: "VFS"}, {}}}
	for _, pf := range st.PFs {
		pfs.row(append(words(pf.Name, pf.PCI.String(), pf.Driver, node(pf.NUMA)), link(pf), cell{text: strconv.Itoa(pf.MTU)}, bar(pf.VFs, o), cell{text: made(pf)})...)
	}
	pfs.write(&b, o)

	b.WriteByte('\n')
	if len(st.Pools) == 0 {
		b.WriteString("No pool is declared in /etc/culvert/host.yaml.\n")
	}
	pools := table{columns: []column{{head: "POOL"}, {head: "TYPE"}, {head: "VFS"}, {}, {head: "PFS", flex: true}}}
	for _, p := range st.Pools {
		pools.row(cell{text: p.Name}, cell{text: p.DeviceType}, bar(p.VFs, o), cell{text: tally(p.VFs)}, cell{text: orDash(strings.Join(p.PFs, " "))})
	}
	pools.write(&b, o)

	b.WriteByte('\n')
	problems(&b, st, o)
	return b.String()
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
		return fmt.Sprintf("%s; %d wanted", tally(pf.VFs), *pf.WantedVFs)
	case pf.VFs.Total == 0:
		return fmt.Sprintf("none, it can have %d", pf.TotalVFs)
	}
	return tally(pf.VFs)
}

func problems(b *strings.Builder, st api.NodeStatus, o Options) {
	if len(st.Problems) == 0 {
		b.WriteString("Nothing is wrong.\n")
		return
	}
	fmt.Fprintf(b, "%s\n", o.paint(fmt.Sprintf("PROBLEMS (%d)", len(st.Problems)), bold))
	for _, p := range st.Problems {
		since := ""
		if !p.Since.IsZero() {
			since = " (for " + ago(st.Time.Sub(p.Since)) + ")"
		}
		entry(b, o, o.paint("!", red), clean(p.Object+": "+p.Reason+since))
		if p.Next != "" {
			entry(b, o, " ", clean("next: "+p.Next))
		}
	}
}

// entry writes a wrapped paragraph behind a mark.
func entry(b *strings.Builder, o Options, mark, s string) {
	for i, line := range wrap(s, o.Width-4) {
		switch {
		case i > 0:
			mark = " "
			line = "  " + line
		case mark == " ":
			line = "  " + line
		}
		fmt.Fprintf(b, "%s %s\n", mark, line)
	}
}
