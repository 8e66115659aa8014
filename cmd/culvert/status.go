package main

import (
	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/node/status/text"
)

func newStatusCommand(p *place) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show a node or a cluster on one screen: NICs, pools and problems",
		Long: `Shows the state of this node: every NIC that can have Virtual Functions with its
link and a bar of its VFs. It also shows the pools of VFs, and problems with the
next step to take.

With --cluster it shows all nodes, the policies, the VFs and addresses of each
network with their nodes and owners, and problems. With --node it shows one node,
as the cluster knows it. That needs a kubeconfig and only the right to read
Culvert's objects (ClusterRole culvert-view, which is part of view).

A bar has one character for each VF (in proportion when there are more than 16):

  # or a full block    used: promised to, held by or coming back from an owner
  . or a light block   free
  q or a cross         quarantined: it could not be reset, and is tried again
  +                    being made
  ?                    unmanaged: on the bus, but not in Culvert's ledger

The command reads links and problems of this node at this moment; a cluster has
the last report of each culvertd, seconds old. Exit status is 0 also when there
are problems. With -o json, scripts look at .ready and .problems, of a cluster
below .nodes too.`,
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
			st, err := p.readCluster(cmd.Context())
			if err != nil {
				return err
			}
			return out.writeValue(cmd, st, func(o text.Options) string { return text.Cluster(st, o) })
		}
		st, err := p.mergedStatus(cmd.Context())
		if err != nil {
			return err
		}
		return out.writeValue(cmd, st, func(o text.Options) string { return text.Node(st, o) })
	}
	return cmd
}
