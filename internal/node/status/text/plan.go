package text

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/screen"
)

// Plan draws `culvert host plan`: the changes, as a diff by PF and VF, and the owners who would
// lose a VF.
func Plan(p api.Plan, o Options) string {
	var b strings.Builder
	for _, pf := range p.PFs {
		planPF(&b, pf, o)
	}
	if len(p.PFs) == 0 {
		b.WriteString("Nothing changes.\n")
	}
	for _, n := range p.Notes {
		writeEntry(&b, o, 0, o.Paint("!", screen.Yellow), excerpt.Clean(n))
	}
	for i, s := range p.Stays {
		if i == 0 {
			b.WriteString("Going back will not undo all of it:\n")
		}
		writeEntry(&b, o, 0, o.Paint("!", screen.Yellow), excerpt.Clean(s))
	}
	return b.String()
}

func planPF(b *strings.Builder, pf api.PFPlan, o Options) {
	fmt.Fprintf(b, "%s\n", o.Paint(excerpt.Clean(strings.TrimRight(fmt.Sprintf("PF %s  %s", pf.PF, pf.PCI), " ")), screen.Bold))
	if pf.Refused != "" {
		writeEntry(b, o, 2, o.Paint("!", screen.Red), excerpt.Clean("cannot be done: "+pf.Refused))
	}
	for _, c := range pf.Changes {
		mark := map[string]screen.Style{api.Add: screen.Green, api.Remove: screen.Red, api.Modify: screen.Yellow}
		writeEntry(b, o, 2, o.Paint(c.Op, mark[c.Op]), excerpt.Clean(formatChange(c)))
	}
	for i, h := range pf.Hurts {
		if i == 0 {
			fmt.Fprintf(b, "  %s\n", o.Paint("would take VFs from their owners", screen.Red))
		}
		s := fmt.Sprintf("%s, who has %s", h.Owner, h.VF)
		if h.Network != "" {
			s += ", network " + h.Network
		}
		writeEntry(b, o, 2, o.Paint("!", screen.Red), excerpt.Clean(s))
	}
	for i, s := range pf.Steps {
		if i == 0 {
			b.WriteString("  steps\n")
		}
		fmt.Fprintf(b, "  %3d. %s\n", i+1, excerpt.Clean(s))
	}
	b.WriteByte('\n')
}

func formatChange(c api.Change) string {
	var parts []string
	if c.Object != "" {
		parts = append(parts, c.Object)
	}
	switch c.Op {
	case api.Modify:
		parts = append(parts, fmt.Sprintf("%s: %s -> %s", c.Attribute, cmp.Or(c.From, "none"), cmp.Or(c.To, "none")))
	default:
		parts = append(parts, c.From+c.To)
	}
	if c.Note != "" {
		parts = append(parts, c.Note)
	}
	return strings.TrimRight(strings.Join(parts, "  "), " ")
}

// Hurt lists the holders who would lose a VF by a plan, for a message: "pod default/a
// (enp1s0f0#3), vm db1 (enp1s0f0#4)".
func Hurt(p api.Plan) string {
	var all []string
	for _, pf := range p.PFs {
		for _, h := range pf.Hurts {
			all = append(all, fmt.Sprintf("%s (%s)", h.Owner, h.VF))
		}
	}
	return excerpt.Clean(strings.Join(all, ", "))
}

// Refused lists the parts of a plan that are impossible, for a message.
func Refused(p api.Plan) string {
	var all []string
	for _, pf := range p.PFs {
		if pf.Refused != "" {
			all = append(all, "PF "+pf.PF+": "+pf.Refused)
		}
	}
	return excerpt.Clean(strings.Join(all, "; "))
}
