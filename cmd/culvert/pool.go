package main

import (
	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/cli"
	"github.com/culvert-net/culvert/status/text"
)

func newPoolCommand(p *place) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "pool",
		Aliases: []string{"pools"},
		Short:   "Show the pools that VFs are given out from",
		Long: `A pool is a set of VFs that pods and virtual machines ask for by name. Pools are
declared in /etc/culvert/host.yaml (see culvert host --help) and are cut
logically: a change of pools leaves the VFs as they are. A VF is in one pool at
most, the first that matches it. In a cluster NodePolicies declare them too.`,
		Example: "  culvert pool list",
	}
	list := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the pools and how many of their VFs are used and free",
		Long: `Lists the pools in the order of host.yaml, which is the order in which they take
VFs; of a cluster, for each of its nodes. A pool without VFs is explained by
culvert status.`,
		Example: `  culvert pool list
  culvert pool list -o wide    # with the VFs
  culvert pool list -o json | jq '.[] | select(.vfs.free == 0).name'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	out := addOutput(list, true)
	list.RunE = func(cmd *cobra.Command, _ []string) error {
		st, err := p.status(cmd.Context())
		if err != nil {
			return err
		}
		return out.write(cmd, st.Pools, func(o text.Options) string { return text.Pools(st.Pools, o) })
	}
	return cli.Group(cmd, list)
}
