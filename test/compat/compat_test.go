package compat

import (
	"fmt"
	"strings"
	"testing"
)

// TestCompatibility gives every case to Culvert and prints, for each group, how many have the
// peer's outcome. With -v it lists the cases that have another outcome.
func TestCompatibility(t *testing.T) {
	groups, err := Groups()
	if err != nil {
		t.Fatal(err)
	}
	table := []string{fmt.Sprintf("%-12s %5s %5s %9s %7s %5s %6s", "group", "cases", "same", "different", "not yet", "floor", "same %")}
	for _, g := range groups {
		t.Run(g.Name, func(t *testing.T) {
			results := g.Run()
			same := Count(results, Same)
			table = append(table, fmt.Sprintf("%-12s %5d %5d %9d %7d %5d %5d %%", g.Name, len(results), same,
				Count(results, Different), Count(results, NotYet), g.Floor, 100*same/max(len(results), 1)))
			for _, r := range results {
				switch {
				case r.Verdict == NotYet:
					t.Logf("not yet: %s\n  peer %s\n  here %s %s", r.Name, r.Peer, r.Got, r.Why)
				case r.Verdict == Same && r.Case.Different != "":
					t.Errorf("%s: the outcome is the peer's: remove different from the case", r.Name)
				}
			}
			if len(results) < g.Least {
				t.Errorf("%d cases; want at least %d", len(results), g.Least)
			}
			if same < g.Floor {
				t.Errorf("%d cases have the peer's outcome, and %d had: tools/go test ./test/compat -v lists those that have not", same, g.Floor)
			}
		})
	}
	t.Log("\n" + strings.Join(table, "\n"))
}
