package main

import "github.com/spf13/cobra"

func newLabCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Boot nodes with emulated SR-IOV NICs",
		Long: `Boots machines with emulated SR-IOV NICs (Intel 82576, driver igb, 7 VFs a PF)
to see Culvert work, to develop it and to test it. No hardware is needed; KVM
is used where it works.`,
	}
	cmd.AddCommand(newLabFastCommand())
	return cmd
}
