package main

import (
	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
)

// version is set by the linker.
var version = "unknown"

func newVersionCommand() *cobra.Command {
	cmd := cli.NewVersion("culvert", version)
	cmd.Long = `Shows the version of this program. That of culvertd stands on the first line of
culvert status.`
	return cmd
}
