package text

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/internal/vf"
)

// Ledger draws `culvert ledger dump`: the content of the ledger, VF by VF, and the addresses.
func Ledger(l api.Ledger, o Options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\nformat %s, boot %s\n", o.Paint(excerpt.Clean(l.File), screen.Bold),
		countEntries(l, ", "), excerpt.Clean(cmp.Or(l.Format, "-")), excerpt.Clean(cmp.Or(l.Boot, "-")))
	t := screen.Table{Columns: []screen.Column{
		{Head: "VF"}, {Head: "PCI"}, {Head: "PHASE"}, {Head: "GEN", Right: true}, {Head: "OWNER", Least: 14}, {Head: "NETWORK", Least: 10},
	}}
	for _, r := range l.Records {
		owner := ""
		switch {
		case r.Owner != nil:
			owner = r.Owner.String()
		case r.Claim != nil:
			owner = vf.OwnerClaim + " " + r.Claim.Name
		}
		row := screen.Words(r.VF.String(), r.PCI.String(), "", strconv.FormatUint(r.Generation, 10), owner, r.Network)
		row[2] = phaseCell(api.VF{Phase: r.Phase})
		t.Add(row...)
	}
	t.WriteBelow(&b, o.Look)
	a := screen.Table{Columns: []screen.Column{{Head: "NETWORK", Least: 10}, {Head: "ADDRESS"}, {Head: "VF"}, {Head: "OWNER", Least: 14}}}
	for _, h := range l.Addresses {
		owner := "unknown"
		if h.Owner != nil {
			owner = h.Owner.String()
		}
		a.Add(screen.Words(h.Network, h.Address, h.VF, owner)...)
	}
	a.WriteBelow(&b, o.Look)
	writeSandboxes(&b, l.Sandboxes, o)
	for _, r := range l.Records {
		if r.Reason != "" && r.Phase != string(vf.PhaseDamaged) { // the problems name damaged records
			b.WriteByte('\n')
			writeEntry(&b, o, 0, "", excerpt.Clean(fmt.Sprintf("%s is %s: %s", r.VF, r.Phase, r.Reason)))
		}
	}
	if len(l.Problems) > 0 {
		fmt.Fprintf(&b, "\n%s not all of it is right: culvert ledger check\n", o.Paint("!", screen.Red))
	}
	return b.String()
}

// writeSandboxes lists the sandboxes of pods, if there are any.
func writeSandboxes(b *strings.Builder, all []api.LedgerSandbox, o Options) {
	t := screen.Table{Columns: []screen.Column{{Head: "SANDBOX"}, {Head: "POD", Least: 14}, {Head: "PHASE"}, {Head: "NETWORKS", Least: 10}}}
	for _, s := range all {
		var networks []string
		if s.Omitted > 0 {
			networks = append(networks, fmt.Sprintf("(%d bytes, not shown)", s.Omitted))
		}
		for _, n := range s.Networks {
			networks = append(networks, n.Interface+"="+n.Name)
		}
		t.Add(screen.Words(s.ID[:min(len(s.ID), 12)], s.Pod, s.Phase, strings.Join(networks, " "))...)
	}
	t.WriteBelow(b, o.Look)
}

// countEntries returns how many entries of each kind a ledger has, with a text before the last.
func countEntries(l api.Ledger, last string) string {
	return screen.Plural(len(l.Records), "VF") + ", " + screen.Plural(len(l.Addresses), "address") + last + screen.Plural(len(l.Events), "event")
}

// LedgerCheck draws `culvert ledger check`: each problem with its meaning, and the next step.
func LedgerCheck(l api.Ledger, o Options) string {
	var b strings.Builder
	if len(l.Problems) == 0 {
		fmt.Fprintf(&b, "%s is right: %s\n", excerpt.Clean(l.File), countEntries(l, ", "))
		return b.String()
	}
	fmt.Fprintf(&b, "%s  %s can be read\n\n", o.Paint(excerpt.Clean(l.File), screen.Bold), countEntries(l, " and "))
	const most = 50
	for i, p := range l.Problems {
		if i == most {
			fmt.Fprintf(&b, "  and %d more; -o json has them all\n", len(l.Problems)-most)
			break
		}
		s := fmt.Sprintf("%s: %s: %s", p.Object, p.What, p.Means)
		if p.Invariant != "" {
			s += " (" + p.Invariant + ")"
		}
		writeEntry(&b, o, 0, o.Paint("!", screen.Red), excerpt.Clean(s))
	}
	b.WriteByte('\n')
	next := "culvertd goes on with the ledger, and leaves alone the entries above. It takes a VF over again when the kernel shows that the VF is unused; culvert ledger repair mends the rest, while culvertd is stopped."
	if l.Refused {
		next = "culvertd does not start on this file. culvert ledger repair " + l.File + " saves what can be read, and keeps the file as it is beside it."
	}
	writeEntry(&b, o, 0, "", excerpt.Clean(next))
	return b.String()
}

// LedgerRepair describes the result of a repair.
func LedgerRepair(did []string, o Options) string {
	var b strings.Builder
	b.WriteString("\nA repair writes a new ledger, in which\n\n")
	for _, d := range did {
		writeEntry(&b, o, 0, "-", excerpt.Clean(d))
	}
	b.WriteString("\nculvertd gives a VF that is marked as lost to no owner until the kernel shows that it is unused.\n")
	return b.String()
}
