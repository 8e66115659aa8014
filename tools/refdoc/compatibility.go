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

Culvert's webhook does for pods what network-resources-injector does. These parts differ, since a
network's author must not widen what a pod's author or the administrator decided, and since the
webhook refuses no pod:

| input | network-resources-injector | Culvert |
|---|---|---|
| a pod has another value for the key of a network's ` + "`nodeSelector`" + ` | the network's value replaces it | the pod's value stays, with a warning |
| two networks with two values for one key | the last one counts | the first one counts, with a warning |
| an annotation ` + "`nodeSelector`" + ` that is no label, a network that is missing | the pod is refused | a warning; the node decides |
| two keys of a network name one resource | two devices | one device |
| a pod without labels | no file ` + "`labels`" + ` | an empty file |
| a container that mounts something at ` + "`/etc`" + `, at ` + "`/etc/podnetinfo`" + ` or below | mounted there too | left as it is |
| files about huge pages | with a flag | always |
| ` + "`-honor-resources`" + `, user-defined injections | served | not served; ` + "`culvert migrate`" + ` names them |
| pods of ` + "`kube-system`" + ` | left alone | as any other pod |

Culvert also has ` + "`defaultNetworks`" + ` and ` + "`systemNamespaces`" + ` of Multus' own configuration, for names of
NetworkAttachmentDefinitions. Not served are paths of files in ` + "`defaultNetworks`" + `, a
` + "`clusterNetwork`" + ` by name, and more than one of ` + "`delegates`" + `: ` + "`culvert migrate plan`" + ` names them.

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
