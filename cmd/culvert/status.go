package main

import (
	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/status/text"
)

func newStatusCommand(p *place) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show a node or a cluster on one screen: NICs, pools, and what is wrong",
		Long: `Shows what culvertd knows of this node: every NIC that can have Virtual
Functions with its link and a bar of its VFs, the pools that VFs are given out
from, and what is not as it should be with the next step to take.

Of a Kubernetes cluster it shows all nodes, the policies, which network has VFs
and addresses where and for whom, and what is wrong; with --node one node, as
the cluster knows it. That needs a kubeconfig and no more rights than to read
Culvert's objects (ClusterRole culvert-view, which is part of view).

A bar has one character for each VF (in proportion when there are more than 16):

  # or a full block    used: promised to, held by or coming back from an owner
  . or a light block   free
  q or a cross         quarantined: it could not be reset, and is tried again
  +                    being made
  ?                    unmanaged: on the bus, but not in Culvert's ledger

Links and problems of this node are read as they are now; a cluster has what each
culvertd told last, seconds ago. Exit status is 0 also when something is wrong;
with -o json, scripts look at .ready and .problems, of a cluster below .nodes too.`,
		Example: `  culvert status
  culvert status --cluster
  culvert status --context prod --node worker01
  culvert status -o json | jq -r '.problems[] | "\(.object): \(.reason)"'
  culvert status -o yaml | less`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	out := addOutput(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if p.inCluster() && p.nodeName == "" {
			st, err := p.cluster(cmd.Context())
			if err != nil {
				return err
			}
			return out.write(cmd, st, func(o text.Options) string { return text.Cluster(st, o) })
		}
		st, err := p.status(cmd.Context())
		if err != nil {
			return err
		}
		return out.write(cmd, st, func(o text.Options) string { return text.Node(st, o) })
	}
	return cmd
}
