package text

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/screen"
)

// doctorGroups are the headings of the doctor's findings, with their checks.
var doctorGroups = []struct {
	head   string
	checks []string
}{
	{"NICS", []string{"sriov", "link", "numa", "mtu", "path", "interrupts", "queues"}},
	{"HOST", []string{"root", "arguments", "iommu", "modules"}},
	{"OTHERS WHO CONFIGURE NICS", []string{"claims"}},
	{"CULVERT", []string{"culvertd", "limits", "ledger", "cni", "libvirt"}},
	{"KUBERNETES", []string{"kubernetes", "pools", "isolation"}},
	{"GUEST", []string{"guest", "virtio", "hugepages", "pinning", "placement", "memlock", "slots", "spread", "windows", "inside"}},
}

var severityStyle = map[api.Severity]screen.Style{
	api.SeverityOK: screen.Green, api.SeverityNote: screen.Cyan, api.SeverityWarning: screen.Yellow, api.SeverityError: screen.Red,
}

// Doctor draws `culvert doctor`: the findings, by their objects.
func Doctor(r api.DoctorReport, o Options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n", o.Paint(excerpt.Clean(cmp.Or(r.Node, "-")), screen.Bold), doctorSummary(r.Summary, o))
	for _, g := range doctorGroups {
		first := true
		for _, f := range r.Findings {
			if !slices.Contains(g.checks, f.Check) {
				continue
			}
			if first {
				fmt.Fprintf(&b, "\n%s\n", o.Paint(g.head, screen.Bold))
				first = false
			}
			doctorFinding(&b, f, o)
		}
	}
	if len(r.Repairs) > 0 {
		fmt.Fprintf(&b, "\n%s\n", o.Paint("DONE BY --fix", screen.Bold))
	}
	for _, repair := range r.Repairs {
		doctorRepair(&b, repair, o)
	}
	if fixable := slices.ContainsFunc(r.Findings, func(f api.Finding) bool { return f.Fixable }); fixable && r.Repairs == nil {
		fmt.Fprintf(&b, "\nculvert doctor --fix does what is marked *.\n")
	}
	b.WriteString("\nSee also: culvert status, culvert host plan, culvert lab up (emulated NICs to try).\n")
	return b.String()
}

func doctorSummary(s api.Summary, o Options) string {
	count := func(n int, one string, st screen.Style) string {
		if n != 1 && one != "ok" {
			one += "s"
		}
		text := fmt.Sprintf("%d %s", n, one)
		if n == 0 {
			return text
		}
		return o.Paint(text, st)
	}
	return strings.Join([]string{count(s.Errors, "error", screen.Red), count(s.Warnings, "warning", screen.Yellow), count(s.Notes, "note", screen.Cyan), count(s.OK, "ok", screen.Green)}, ", ")
}

// doctorColumn is where the text of a finding starts.
const doctorColumn = 11

func doctorFinding(b *strings.Builder, f api.Finding, o Options) {
	mark := " "
	if f.Fixable {
		mark = "*"
	}
	word := string(f.Severity)
	pad := strings.Repeat(" ", max(0, 7-screen.Columns(word)))
	fmt.Fprintf(b, " %s%s%s  ", mark, o.Paint(word, severityStyle[f.Severity]), pad)
	doctorText(b, excerpt.Clean(f.Object+": "+f.What), o, "")
	if f.Why != "" {
		b.WriteString(strings.Repeat(" ", doctorColumn))
		doctorText(b, excerpt.Clean("why: "+f.Why), o, "     ")
	}
	doctorCommands(b, "mend: ", f.Mend, o)
}

// doctorText writes s from the column on. Its further lines are indented by more as well.
func doctorText(b *strings.Builder, s string, o Options, more string) {
	width := 0
	if o.Width > 0 {
		width = max(20, o.Width-doctorColumn-screen.Columns(more))
	}
	for i, line := range screen.Wrap(s, width) {
		if i > 0 {
			b.WriteString(strings.Repeat(" ", doctorColumn) + more)
		}
		b.WriteString(line + "\n")
	}
}

func doctorCommands(b *strings.Builder, head string, lines []string, o Options) {
	for _, line := range lines {
		for i, part := range wrapCommand(excerpt.Clean(line), o.Width-doctorColumn-len(head)) {
			if i > 0 {
				part = "  " + part
			}
			fmt.Fprintf(b, "%s%s%s\n", strings.Repeat(" ", doctorColumn), head, part)
			head = "      "
		}
	}
}

// wrapCommand breaks a line that is too long where a shell continues it: after &&, or with a
// backslash before a redirection or between words of kubectl. It wraps other lines as text.
func wrapCommand(s string, width int) []string {
	if width <= 0 || screen.Columns(s) <= width {
		return []string{s}
	}
	if before, after, ok := strings.Cut(s, " >/"); ok {
		return []string{before + ` \`, ">/" + after}
	}
	if before, after, ok := strings.Cut(s, " && "); ok {
		return []string{before + " &&", after}
	}
	if !strings.HasPrefix(s, "kubectl ") {
		return screen.Wrap(s, width-2)
	}
	lines := screen.Wrap(s, width-4)
	for i := range lines[:len(lines)-1] {
		lines[i] += ` \`
	}
	return lines
}

func doctorRepair(b *strings.Builder, r api.Repair, o Options) {
	mark, what := o.Paint("done", screen.Green)+"   ", r.What+": "+r.Found
	if !r.Done {
		mark, what = o.Paint("failed", screen.Red)+" ", r.What+": "+r.Error
	}
	fmt.Fprintf(b, "  %s  ", mark)
	doctorText(b, excerpt.Clean(what), o, "")
	if r.Undo != "" {
		doctorCommands(b, "undo: ", []string{r.Undo}, o)
	}
}
