package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/admin/migrate"
	"github.com/culvert-net/culvert/internal/admin/verdict"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/node/status/text"
	"github.com/culvert-net/culvert/internal/screen"
)

func newNetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "net",
		Short: "Check networks and the pods that use them",
		Long: `Networks are NetworkAttachmentDefinitions. Those that were written for Multus and
the SR-IOV CNI plugin work unchanged; culvert net check finds the exceptions.`,
		Example: `  culvert net check network.yaml pod.yaml`,
	}
	return cli.Group(cmd, newNetCheckCommand())
}

func newNetCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Judge networks, pods and device plugin configurations",
		Long: `Judges each object in files of YAML or JSON: it works, it works with warnings, or
it is refused, with the reason. - is standard input. It asks no cluster and no
node; the webhook and the nodes judge by the same code. The webhook judges values
that depend on a node's NICs, such as a rate, when you apply the network.

It judges NetworkAttachmentDefinitions, and pods with networks of the same
files. It finds the pods in objects of any kind: Deployments, JobSets,
VirtualMachines and so on. It also judges ConfigMaps and config.json of the
SR-IOV network device plugin, bare CNI configurations, NodePolicies,
AddressPools and host.yaml. It judges objects of the SR-IOV operator by the
result of culvert migrate convert, and finds networks of pods among them. It
leaves out others.

It refuses replicas that ask for one address, of which all but one would never
start, and ranges from which whereabouts gives no address. It warns of keys that
an object has twice, and of misspelled keys, annotations, kinds and plugins,
with the nearest word.

Where the files make pools, it warns of a network whose pool none of them makes.
It warns where the node labels of a pod's networks differ from one another or
from the pod's nodeSelector.

A DaemonSet of culvertd or a ConfigMap of Multus among the files counts. Where it
switches namespace isolation on, the command refuses pods that name networks that
they may not use. Where it gives networks to every pod, pods have these first.

An object or a file that cannot be read is refused; it hides no other one.

Exit status is 0 when nothing is refused, and 1 when something is.`,
		Example: `  culvert net check network.yaml pod.yaml
  kubectl get net-attach-def,pods -A -o yaml | culvert net check -
  culvert net check *.yaml -o json | jq '.[] | select(.refusals).object'`,
		Args: cobra.MinimumNArgs(1),
	}
	out := addOutput(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		var objects []migrate.Object
		for _, name := range files {
			content, err := cli.ReadFile(cmd, name)
			if err != nil {
				objects = append(objects, migrate.Object{Kind: "file", Name: name, From: name, Err: err})
				continue
			}
			objects = append(objects, verdict.Read(name, content)...)
		}
		all := append([]verdict.Verdict{}, verdict.Of(objects)...) // an empty list in JSON
		if err := out.writeValue(cmd, all, func(o text.Options) string { return drawVerdicts(all, o.Look) }); err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(v verdict.Verdict) bool { return v.Outcome == verdict.Refused }) {
			return cli.ExitStatus(1)
		}
		return nil
	}
	return cmd
}

// drawVerdicts draws a table, and below it the reasons.
func drawVerdicts(all []verdict.Verdict, l screen.Look) string {
	if len(all) == 0 {
		return "nothing to check: the files have no network, no pod that asks for one, no pools and no object of the SR-IOV operator\n"
	}
	var b strings.Builder
	t := screen.Table{Columns: []screen.Column{{Head: "OBJECT", Least: 20}, {Head: "FILE", Least: 12, Shorten: true}, {Head: "OUTCOME"}}}
	style := map[verdict.Outcome]screen.Style{verdict.Works: screen.Green, verdict.Warned: screen.Yellow, verdict.Refused: screen.Red}
	for _, v := range all {
		t.Add(screen.Cell{Text: excerpt.Clean(v.Object)}, screen.Cell{Text: excerpt.Clean(v.From)}, screen.Cell{Text: string(v.Outcome), Style: style[v.Outcome]})
	}
	t.Write(&b, l)
	for _, v := range all {
		if v.Outcome == verdict.Works {
			continue
		}
		fmt.Fprintf(&b, "\n%s\n", l.Paint(excerpt.Clean(v.Object), screen.Bold))
		writeReasons(&b, l, "refused: ", v.Refusals)
		writeReasons(&b, l, "warning: ", v.Warnings)
	}
	return b.String()
}

// writeReasons writes each reason as a paragraph below its word.
func writeReasons(b *strings.Builder, l screen.Look, word string, reasons []string) {
	const indent = "  "
	for _, reason := range reasons {
		for i, line := range screen.WrapAll(word+excerpt.Clean(reason), max(l.Width-2*len(indent), 0)) {
			if i > 0 {
				line = indent + line
			}
			b.WriteString(indent + line + "\n")
		}
	}
}
