package text

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/screen"
)

// DrawHistory draws `culvert vf history`: a table of the spans, and below it the changes in them.
func DrawHistory(spans []api.Span, o Options) string {
	if len(spans) == 0 {
		return "No history. culvert events shows the events that the ledger has.\n"
	}
	t := screen.Table{Columns: []screen.Column{
		{Head: "VF"}, {Head: "FROM"}, {Head: "TO"}, {Head: "OWNER", Least: 14}, {Head: "NETWORK", Least: 8}, {Head: "ADDRESSES", Least: 10}, {Head: "CHANGES", Least: 10},
	}}
	var changes []api.Event
	for _, s := range spans {
		owner := ""
		if !s.Owner.IsZero() {
			owner = s.Owner.String()
		}
		var addresses []string
		for _, a := range s.Addresses {
			addresses = append(addresses, a.String())
		}
		t.Add(screen.Words(s.Name, o.formatEnd(s.From, "earlier"), o.formatEnd(s.To, "now"), owner, s.Network, strings.Join(addresses, " "), listChanges(s))...)
		changes = append(changes, s.Changes...)
	}
	var b strings.Builder
	t.Write(&b, o.Look)
	slices.SortStableFunc(changes, func(x, y api.Event) int { return cmp.Compare(x.Seq, y.Seq) })
	changes = slices.CompactFunc(changes, func(x, y api.Event) bool { return x.Seq == y.Seq }) // of a PF
	if len(changes) > 0 {
		fmt.Fprintf(&b, "\n%s\n%s", o.Paint("CHANGES", screen.Bold), Events(changes, o))
	}
	return b.String()
}

// formatEnd formats an end of a span to the second, or the word for an end that is not known.
func (o Options) formatEnd(t time.Time, without string) string {
	if t.IsZero() {
		return without
	}
	return o.formatTime(t)
}

// listChanges returns the settings of a span, and the reasons of its changes, each once.
func listChanges(s api.Span) string {
	var parts []string
	if s.Settings != "" {
		parts = append(parts, s.Settings)
	}
	for _, e := range s.Changes {
		if !slices.Contains(parts, e.Reason) {
			parts = append(parts, e.Reason)
		}
	}
	return strings.Join(parts, ", ")
}
