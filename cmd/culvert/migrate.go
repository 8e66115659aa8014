package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/admin/migrate"
)

// exitLoss is the status of culvert migrate convert when something has no equivalent.
const exitLoss = 2

func newMigrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Migrate from Multus, the SR-IOV plugins or the SR-IOV operator",
		Long: `Migrates a cluster that has Multus, the SR-IOV CNI plugin and the device plugin,
or the SR-IOV operator. Networks and pods stay as they are. The operator's objects
become NodePolicies and NetworkAttachmentDefinitions, once.

plan shows the steps for a cluster, convert makes the objects, and check lists the
remaining work. Follow docs/migrate.md.`,
		Example: `  culvert migrate plan                                    # changes nothing
  culvert migrate convert operator.yaml > culvert-objects.yaml
  culvert migrate check`,
	}
	return cli.Group(cmd, newMigratePlanCommand(), newMigrateConvertCommand(), newMigrateCheckCommand())
}

func newMigrateConvertCommand() *cobra.Command {
	var options migrate.Options
	cmd := &cobra.Command{
		Use:   "convert FILE...",
		Short: "Make NodePolicies and networks of the SR-IOV operator's objects",
		Long: `Reads objects of the SR-IOV operator (SriovNetworkNodePolicy, SriovNetwork,
SriovIBNetwork, OVSNetwork, SriovNetworkPoolConfig, SriovOperatorConfig) and
configurations of the device plugin from files; - is standard input. A
configuration may be in a ConfigMap, or in a NicClusterPolicy or a NicNodePolicy
of NVIDIA's network operator. Writes the equivalent NodePolicies and
NetworkAttachmentDefinitions, for kubectl apply. It asks no cluster and changes
nothing.

It writes to standard error what each object became, and every field that has no
equivalent. It refuses an object that would mean something else without a field,
such as one with a misspelt field. docs/reference/migrate.md lists the fields. An
object that cannot be read, or whose name a later object has, hides no other one.

Exit status is 0 when everything was converted, 2 when something has no
equivalent (the rest is written all the same), and 1 when a file cannot be read.`,
		Example: `  kubectl get sriovnetworknodepolicies,sriovnetworks -A -o yaml > operator.yaml
  culvert migrate convert operator.yaml > culvert.yaml
  culvert migrate convert configmap.yaml --resource-prefix example.org
  culvert migrate convert operator.yaml -o json | jq '.items[].metadata.name'`,
		Args: cobra.MinimumNArgs(1),
	}
	cmd.Flags().StringVar(&options.ResourcePrefix, "resource-prefix", "", "of all resources; openshift.io for the operator's and intel.com for the device plugin's unless given")
	format := cli.AddFormat(cmd, "json for one list in place of documents of YAML", cli.YAML, cli.JSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		objects, err := readObjects(cmd, args)
		if err != nil {
			return err
		}
		result := migrate.Convert(objects, options)
		for _, n := range result.Notes {
			fmt.Fprintln(cmd.ErrOrStderr(), n)
		}
		if err := writeManifests(cmd.OutOrStdout(), format.String(), result.Manifests); err != nil {
			return err
		}
		if result.HasLoss() {
			return cli.ExitStatus(exitLoss)
		}
		return nil
	}
	return cmd
}

// readObjects reads the objects of files. An object that cannot be read hides no other one of its file;
// a file with a mistake in its syntax cannot be read.
func readObjects(cmd *cobra.Command, files []string) ([]migrate.Object, error) {
	var all []migrate.Object
	for _, name := range files {
		content, err := cli.ReadFile(cmd, name)
		if err != nil {
			return nil, err
		}
		for _, o := range migrate.ReadAll(name, content) {
			if o.Err != nil && !o.HasKind() {
				return nil, o.Err
			}
			all = append(all, o)
		}
	}
	return all, nil
}

// writeManifests writes the objects for kubectl apply, as documents of YAML or as a
// list in JSON.
func writeManifests(w io.Writer, format string, all []migrate.Manifest) error {
	if format == cli.JSON {
		return cli.Encode(w, cli.JSON, struct {
			APIVersion string             `json:"apiVersion"`
			Kind       string             `json:"kind"`
			Items      []migrate.Manifest `json:"items"`
		}{"v1", "List", append([]migrate.Manifest{}, all...)})
	}
	for _, m := range all {
		if err := cli.EncodeLine(w, cli.YAML, m); err != nil {
			return err
		}
	}
	return nil
}
