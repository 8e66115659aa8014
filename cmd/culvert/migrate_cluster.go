package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/admin/clusterview"
	"github.com/culvert-net/culvert/internal/admin/migrate"
	"github.com/culvert-net/culvert/internal/admin/verdict"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/node/status"
	"github.com/culvert-net/culvert/internal/vf"
)

func newMigratePlanCommand() *cobra.Command {
	var options migrate.Options
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show how a cluster becomes one of Culvert's",
		Long: `Reads the cluster of the kubeconfig and shows the parts of other stacks in it:
Multus, SR-IOV CNI plugin, device plugin, whereabouts, SR-IOV operator, injector.
It shows the conversion of each object, network and pod, and those that would not
work. It lists the steps to install and delete, in order, with the reason of each.
It changes nothing.

It needs the right to list DaemonSets, Deployments, pods, webhook configurations,
NetworkAttachmentDefinitions and the operator's objects.

Exit status is 0 when all would work, 2 when something would not, and 1 when the
cluster cannot be read.`,
		Example: `  culvert migrate plan
  culvert migrate plan -o json | jq -r '.steps[].command'`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&options.ResourcePrefix, "resource-prefix", "", "of all resources; openshift.io for the operator's and intel.com for the device plugin's unless given")
	var p place
	p.addClusterFlags(cmd)
	out := addOutput(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := p.readMigration(cmd.Context())
		if err != nil {
			return err
		}
		plan := migrate.MakePlan(c, options)
		if out.IsForPrograms() {
			err = cli.Encode(cmd.OutOrStdout(), out.String(), plan)
		} else {
			err = writePlan(cmd.OutOrStdout(), plan)
		}
		if err == nil && len(plan.Problems) > 0 {
			err = cli.ExitStatus(exitLoss)
		}
		return err
	}
	return cmd
}

func newMigrateCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "List the remaining work after a migration",
		Long: `Reads the cluster of the kubeconfig and lists the remaining work. That is parts of
other stacks that are still there, nodes whose culvertd is not ready, and VFs that
it is still taking over. It is also policies that a node does not follow, pods
that do not run, and networks that are not served. It changes nothing. With
nothing left it says so.

Exit status is 0 when nothing is left, 2 when something is, and 1 when the cluster
cannot be read.`,
		Example: `  culvert migrate check
  until culvert migrate check; do sleep 5; done`,
		Args: cobra.NoArgs,
	}
	var p place
	p.addClusterFlags(cmd)
	out := addOutput(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := p.readMigration(cmd.Context())
		if err != nil {
			return err
		}
		left := migrate.Check(c)
		if out.IsForPrograms() {
			err = cli.Encode(cmd.OutOrStdout(), out.String(), append([]migrate.Note{}, left...))
		} else {
			err = writeLeft(cmd.OutOrStdout(), left)
		}
		if err == nil && len(left) > 0 {
			err = cli.ExitStatus(exitLoss)
		}
		return err
	}
	return cmd
}

// writeLeft writes the remaining work as text for people.
func writeLeft(w io.Writer, left []migrate.Note) error {
	if len(left) == 0 {
		_, err := fmt.Fprintln(w, "nothing is left: the old parts are gone, every pod with networks runs and every network is served")
		return err
	}
	for _, n := range left {
		if _, err := fmt.Fprintln(w, n); err != nil {
			return err
		}
	}
	return nil
}

// writePlan writes a plan for people.
func writePlan(w io.Writer, plan migrate.Plan) error {
	var b strings.Builder
	section := func(title string, lines int) {
		if lines > 0 {
			fmt.Fprintf(&b, "%s\n", title)
		}
	}
	section("There is", len(plan.Found))
	for _, p := range plan.Found {
		word := "stays"
		if p.Goes {
			word = "goes"
		}
		fmt.Fprintf(&b, "  %s (%s) %s: %s\n", p.Name, p.Workload, word, p.Why)
	}
	section("Conversions", len(plan.Becomes))
	for _, n := range plan.Becomes {
		fmt.Fprintf(&b, "  %s\n", n)
	}
	section("Problems", len(plan.Problems))
	for _, n := range plan.Problems {
		fmt.Fprintf(&b, "  %s\n", n)
	}
	section("Steps", len(plan.Steps))
	for i, s := range plan.Steps {
		fmt.Fprintf(&b, "  %d. %s\n     %s\n", i+1, s.Command, s.Why)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// readMigration reads the state of the cluster that culvert migrate needs.
func (p *place) readMigration(ctx context.Context) (migrate.Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, statusBound)
	defer cancel()
	c, err := p.openCluster()
	if err != nil {
		return migrate.Cluster{}, err
	}
	stack, err := c.Stack(ctx)
	if err != nil {
		return migrate.Cluster{}, err
	}
	out, err := migrationOf(stack)
	if err != nil {
		return migrate.Cluster{}, err
	}
	own, err := c.Read(ctx, "")
	if errors.Is(err, vf.ErrNotFound) {
		return out, nil // Culvert is not installed yet
	}
	if err != nil {
		return migrate.Cluster{}, err
	}
	out.Installed, out.Daemons = true, own.Daemons
	for _, s := range own.States {
		out.Nodes = append(out.Nodes, status.FromNodeState(s, time.Now()))
	}
	for policy, reason := range own.Unapplied() {
		out.Unapplied = append(out.Unapplied, migrate.Note{Object: "NodePolicy " + policy, Text: "it is not applied: " + reason, Lost: true})
	}
	return out, nil
}

// migrationOf converts a stack of package clusterview to a cluster of package migrate.
func migrationOf(s clusterview.Stack) (migrate.Cluster, error) {
	out := migrate.Cluster{Webhooks: s.Webhooks, HasNetworks: s.HasNetworks}
	for _, w := range s.Workloads {
		out.Workloads = append(out.Workloads, migrate.Workload(w))
	}
	for _, o := range s.Objects {
		object, err := migrate.Decode(o.Kind, o.JSON)
		if err != nil {
			return out, err
		}
		out.Objects = append(out.Objects, object)
	}
	var judge []migrate.Object
	for _, n := range s.Networks {
		out.Networks = append(out.Networks, migrate.Network{Namespace: n.Namespace, Name: n.Name, Owners: n.Owners, IPAM: ipamTypesOf(n)})
		judge = append(judge, migrate.Object{Kind: migrate.KindDefinition, Namespace: n.Namespace, Name: n.Name, Annotations: n.Annotations, Spec: map[string]any{"config": n.Config}})
	}
	for _, p := range s.Pods {
		out.Pods = append(out.Pods, migrate.Pod{Namespace: p.Namespace, Name: p.Name, Ready: p.Ready, Reason: p.Reason})
		judge = append(judge, migrate.Object{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, Annotations: p.Annotations})
	}
	for _, v := range verdict.Of(judge) {
		out.Judged = append(out.Judged, judgmentNotes(v)...)
	}
	return out, nil
}

// ipamTypesOf returns the IPAM plugins that a network names.
func ipamTypesOf(n clusterview.StackNetwork) []string {
	return config.Read(api.NetworkDefinition{Namespace: n.Namespace, Name: n.Name, Config: n.Config}).IPAMTypes()
}

// judgmentNotes returns a verdict's notes about a network or a pod. A warning of a pod counts as
// remaining work: the pod runs without a part of its request.
func judgmentNotes(v verdict.Verdict) []migrate.Note {
	isPod := strings.HasPrefix(v.Object, "Pod ")
	var out []migrate.Note
	for _, text := range v.Refusals {
		out = append(out, migrate.Note{Object: v.Object, Text: "would be refused: " + text, Lost: true})
	}
	for _, text := range v.Warnings {
		out = append(out, migrate.Note{Object: v.Object, Text: "works, with a warning: " + text, Lost: isPod})
	}
	if len(out) == 0 && !isPod {
		out = append(out, migrate.Note{Object: v.Object, Text: "works as it is"})
	}
	return out
}
