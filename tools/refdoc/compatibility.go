package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/test/compat"
)

const compatibilityIntro = `# What works as it is

Each row is a network, an annotation or a configuration for another project, and compares Culvert's
outcome with that project's. The cases are in [test/compat](../test/compat): each has an input of
our own, the other project's outcome and where it shows it. ` + "`tools/go test ./test/compat -v`" + `
prints the same table and every case with another outcome.

A test runs the other project's own code on the cases under "peer run". Its parts for the cases
under "read, not run" are not to be had as Go modules, or need a cluster or a NIC. Each of these
cases names the file and the function of the other project in which its outcome was read.

One default differs. Culvert lets a pod use a network of another namespace only where [namespace
isolation](kubernetes.md#which-pods-may-use-which-networks) admits it. Multus does so only with
` + "`namespaceIsolation`" + `.

Culvert refuses a network of which a plugin has the key ` + "`type`" + ` twice, or which has two lists of
plugins. Multus executes one of the two, and says nothing of the other.

<!-- Written by tools/refdoc from the cases of test/compat: change them there. -->

| group | compared with | cases | peer run | read, not run | same | deliberately different | not yet | same, of all |
|---|---|---|---|---|---|---|---|---|
`

// compatibilityPage returns a table of the groups, and lists the cases of each group with
// another outcome than the peer's.
func compatibilityPage() ([]byte, error) {
	groups, err := compat.Groups()
	if err != nil {
		return nil, err
	}
	var table, rest bytes.Buffer
	table.WriteString(compatibilityIntro)
	for _, g := range groups {
		results := g.Run()
		same := compat.Count(results, compat.Same)
		fmt.Fprintf(&table, "| %s | %s | %d | %d | %d | %d | %d | %d | %d %% |\n", g.Title, g.Peer, len(results), len(results)-g.CountRead(), g.CountRead(), same,
			compat.Count(results, compat.Different), compat.Count(results, compat.NotYet), 100*same/len(results))
		if same < len(results) {
			writeOthers(&rest, g, results)
		}
	}
	table.Write(rest.Bytes())
	return table.Bytes(), nil
}

// writeOthers lists the cases of a group with another outcome than the peer's.
func writeOthers(out *bytes.Buffer, g compat.Group, results []compat.Result) {
	fmt.Fprintf(out, "\n## %s%s\n\n| case | %s | Culvert | why |\n|---|---|---|---|\n", strings.ToUpper(g.Title[:1]), g.Title[1:], g.Peer)
	for _, r := range results {
		why := r.Case.Different
		switch r.Verdict {
		case compat.Same:
			continue
		case compat.NotYet:
			why = "not yet"
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", escapeCell(r.Name), escapeCell(r.Peer.String()), escapeCell(r.Got.String()), escapeCell(why))
	}
}

// escapeCell escapes text for a cell of a Markdown table.
func escapeCell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }
