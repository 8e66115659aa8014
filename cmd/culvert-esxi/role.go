package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/esxi/vsphere"
)

func (e *esxi) newRoleCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "role",
		Short: "List the privileges that a user needs",
		Long: `Lists the privileges of a role for the user of these commands, one on a line, by
their names in the vSphere API. status and plan need the first three only. Give
the user the role on the host, and in a vCenter on the host, its networks and its
virtual machines.

Not verified on ESXi.`,
		Example: `  culvert esxi role`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, p := range vsphere.Privileges {
				fmt.Fprintln(cmd.OutOrStdout(), p)
			}
			return nil
		},
	}
}
