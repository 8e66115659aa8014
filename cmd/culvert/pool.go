package main

import (
	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/node/status/text"
)

func newPoolCommand(p *place) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "pool",
		Aliases: []string{"pools"},
		Short:   "Show the pools of VFs",
		Long: `A pool is a set of VFs that pods and virtual machines request by name.
/etc/culvert/host.yaml declares pools (see culvert host --help), and so do
NodePolicies in a cluster. A change of pools leaves the VFs as they are. A VF is
in one pool at most, the first that matches it.`,
		Example: "  culvert pool list",
	}
	list := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the pools and how many of their VFs are used and free",
		Long: `Lists the pools in the order of host.yaml, which is the order in which they take
VFs. With --cluster it lists those of each node. culvert status explains a pool
without VFs.`,
		Example: `  culvert pool list
  culvert pool list -o wide    # with the VFs
  culvert pool list -o json | jq '.[] | select(.vfs.free == 0).name'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	out := addOutput(list, true)
	list.RunE = func(cmd *cobra.Command, _ []string) error {
		st, err := p.mergedStatus(cmd.Context())
		if err != nil {
			return err
		}
		return out.writeValue(cmd, st.Pools, func(o text.Options) string { return text.Pools(st.Pools, o) })
	}
	return cli.Group(cmd, list)
}
