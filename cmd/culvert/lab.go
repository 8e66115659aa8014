package main

import "github.com/spf13/cobra"

func newLabCommand() *cobra.Command {
	return &cobra.Command{Use: "lab", Short: "Boot nodes with emulated SR-IOV NICs"}
}
