package text

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/internal/vf"
)

// VF draws `culvert vf show`: everything about one VF. st is the picture that v is from.
func VF(v api.VF, st api.NodeStatus, o Options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", o.Paint("VF "+excerpt.Clean(v.Name), screen.Bold))
	line := func(key, format string, args ...any) {
		s := excerpt.Clean(strings.TrimSpace(fmt.Sprintf(format, args...)))
		if s == "" {
			return
		}
		for i, l := range screen.Wrap(s, o.Width-14) {
			if i > 0 {
				key = ""
			}
			fmt.Fprintf(&b, "  %-11s %s\n", key, l)
		}
	}
	pf := pfOf(v, st)
	line("node", "%s", v.Node)
	line("PCI", "%s", describeDevice(v))
	line("identity", "%s", v.ID)
	line("PF", "%s", strings.TrimRight(strings.Join([]string{pf.Name, pf.PCI.String(), pf.Driver}, " "), " "))
	switch {
	case v.Node != "":
		line("pool", "%s", cmp.Or(v.Pool, "-"))
	case v.Unread:
		line("pool", "%s", cmp.Or(v.Pool, "-"))
	case !v.Missing:
		line("NUMA node", "%s, IOMMU group %s", formatNode(v.NUMA), formatNode(v.IOMMUGroup))
		line("RDMA device", "%s", v.RDMA)
		line("pool", "%s", cmp.Or(v.Pool, "-"))
	}
	line("phase", "%s", phaseLine(v, st, o))
	line("reason", "%s", v.Reason)
	if v.Readback != nil {
		line("clean", "%s", *v.Readback)
	}
	if !v.NextRetry.IsZero() {
		wait := v.NextRetry.Sub(st.Time)
		if wait >= api.LongestRetry {
			wait = 0
		}
		line("retry", "%d so far, next in %s", v.Attempts, screen.Ago(wait))
	}
	writeHolder(line, v, o)
	line("network", "%s", v.Network)
	for _, w := range v.Warnings {
		line("warning", "%s", w)
	}
	line("netns", "%s", v.Netns)
	line("netdevice", "%s", describeNetdevice(v))
	line("addresses", "%s", strings.Join(v.Addresses, ", "))
	switch {
	case v.Node != "":
		line("settings", "are known on the node: culvert vf show %s", v.Name)
	case !v.Missing && !v.Unread:
		b.WriteByte('\n')
		settingsTable(&b, v, pf, o)
	}
	writeDifferences(&b, v, o)
	return b.String()
}

func writeDifferences(b *strings.Builder, v api.VF, o Options) {
	if len(v.Differences) > 0 {
		fmt.Fprintf(b, "\n%s\n", o.Paint("DIFFERENCES to "+describeReference(v), screen.Bold))
	}
	for _, d := range v.Differences {
		writeEntry(b, o, 0, o.Paint("!", screen.Red), excerpt.Clean(d.String()))
	}
	if v.MoreDifferences > 0 {
		fmt.Fprintln(b, excerpt.More(v.MoreDifferences))
	}
}

// writeHolder writes the lines about the VF's owner.
func writeHolder(line func(key, format string, args ...any), v api.VF, o Options) {
	if v.Owner != nil {
		line("owner", "%s", ownerLine(*v.Owner))
		line("owner ID", "%s", v.Owner.UID)
		line("bond", "%s", bondLine(v))
	}
	if c := v.Claim; c != nil {
		line("claim", "%s, request %s, for %s", c.Name, c.Request, strings.Join(c.Pods, ", "))
	}
	line("guard", "%s", guardLine(v))
	if l := v.Lent; l != nil {
		line("lent rate", "max_tx_rate %d for a measurement, until %s at the latest", l.MaxTxRate, o.formatTime(l.Until))
	}
	line("open by", "%s", openBy(v))
}

func pfOf(v api.VF, st api.NodeStatus) api.PF {
	for _, pf := range st.PFs {
		if pf.ID == v.ID.PF {
			return pf
		}
	}
	return api.PF{PF: vf.PF{Name: v.PF}}
}

func describeDevice(v api.VF) string {
	switch {
	case v.Missing:
		return v.PCI.String() + " when last seen; it is not on the bus"
	case v.Unread:
		return v.PCI.String() + " when last read; its PF cannot be read now"
	case v.Node != "":
		return v.PCI.String()
	}
	return fmt.Sprintf("%s, device %s:%s, driver %s", v.PCI, v.Vendor, v.Device, cmp.Or(v.Driver, "none"))
}

// clockSlack is how far in the future the time of an event may seem that has only just happened.
const clockSlack = time.Minute

func phaseLine(v api.VF, st api.NodeStatus, o Options) string {
	switch {
	case v.Phase == api.PhaseUnmanaged:
		return "unmanaged: not in the ledger, so it is never given out"
	case v.Phase == api.PhaseOutside:
		return "used outside Culvert: " + v.UsedBy
	case v.Node != "":
		return v.Phase
	}
	s := v.Phase
	switch {
	case v.Since.After(st.Time.Add(clockSlack)):
		s += fmt.Sprintf(" since %s, which is yet to come: the clock was set back", o.formatTime(v.Since))
	case !v.Since.IsZero():
		s += fmt.Sprintf(" for %s (since %s)", screen.Ago(st.Time.Sub(v.Since)), o.formatTime(v.Since))
	}
	return fmt.Sprintf("%s, generation %d", s, v.Generation)
}

func ownerLine(w vf.Owner) string {
	if w.Interface == "" {
		return w.String()
	}
	return w.String() + ", as " + w.Interface
}

// bondLine describes the bond of which a VF is a member. It is empty for a VF of its own.
func bondLine(v api.VF) string {
	if v.Bond == nil {
		return ""
	}
	s := fmt.Sprintf("%s, %s of %d VFs", v.Owner.Interface, v.Bond.Mode, v.Bond.Links)
	switch l := v.Link; {
	case l == nil || l.Bond == nil:
	case l.Bond.Active:
		s += ", and this one sends"
	default:
		s += ", and another one sends"
	}
	return s
}

// guardLine describes the guard of a VF; it is empty for a VF without one.
func guardLine(v api.VF) string {
	switch g := v.Guard; {
	case g == nil:
		return ""
	case g.Reason != "":
		return fmt.Sprintf("%s, %s: %s", g.Name(), g.Degree, g.Reason)
	default:
		return fmt.Sprintf("%s, %s", g.Name(), g.Degree)
	}
}

func openBy(v api.VF) string {
	if formatRunning(v) == "reserved" {
		return "no process: it is reserved, and the guest does not run with it"
	}
	var all []string
	for _, p := range v.OpenBy {
		all = append(all, p.String())
	}
	if v.MoreOpenBy > 0 {
		all = append(all, excerpt.More(v.MoreOpenBy))
	}
	return strings.Join(all, ", ")
}

func describeNetdevice(v api.VF) string {
	if v.Link == nil {
		if v.Netdevice == "" {
			return ""
		}
		return strings.TrimRight(fmt.Sprintf("%s %s", v.Netdevice, v.MAC), " ")
	}
	parts := []string{v.Link.Name, v.Link.MAC.String(), fmt.Sprintf("mtu %d", v.Link.MTU)}
	for _, f := range []struct {
		is      bool
		yes, no string
	}{{v.Link.Up, "up", "down"}, {v.Link.Carrier, "carrier", "no carrier"}, {v.Link.Promisc, "promiscuous", ""}, {v.Link.AllMulti, "allmulti", ""}} {
		switch {
		case f.is:
			parts = append(parts, f.yes)
		case f.no != "":
			parts = append(parts, f.no)
		}
	}
	return strings.Join(parts, ", ")
}

func describeReference(v api.VF) string {
	if v.Owner != nil && v.Phase != "quarantined" {
		return "what its owner was given"
	}
	return "its baseline"
}

func settingsTable(b *strings.Builder, v api.VF, pf api.PF, o Options) {
	t := screen.Table{Indent: 2, Columns: []screen.Column{{Head: "SETTING"}, {Head: "WANTED"}, {Head: "READ BACK"}, {Head: "BASELINE"}, {Head: "DRIVER CAN"}}}
	for _, s := range listSettings(v) {
		actual := screen.Cell{Text: cmp.Or(s.actual, "-")}
		if s.odd {
			actual.Style = screen.Cyan
		}
		can := ""
		if s.ability != "" {
			can = pf.Abilities[s.ability].String()
		}
		t.Add(screen.Cell{Text: s.name}, screen.Cell{Text: cmp.Or(s.wanted, "-")}, actual, screen.Cell{Text: cmp.Or(s.baseline, "-")}, screen.Cell{Text: cmp.Or(can, "-")})
	}
	t.Write(b, o.Look)
	for _, r := range v.Rates {
		fmt.Fprintf(b, "\n  %s: asked %s, accepted %s, effective %s", r.Setting, cmp.Or(rateAsked(r.Asked), "nothing"), formatRate(r.Accepted), formatRate(r.Effective))
	}
	if len(v.Rates) > 0 {
		b.WriteByte('\n')
	}
	if pf.Rates != "" {
		fmt.Fprintf(b, "\n  max_tx_rate: %s\n", pf.Rates)
	}
}
