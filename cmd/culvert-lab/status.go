package main

import (
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/lab"
)

func newStatusCommand(name *string) *cobra.Command {
	var out *cli.Format
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the nodes of a lab, and how they are run",
		Long: `Shows the nodes of a lab that is up, their addresses, PFs and cables, the programs
beside them, and whether KVM runs them.`,
		Example: `  culvert lab status
  culvert lab status -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withLab(*name, func(l *lab.Lab) error {
				st, err := l.Status()
				if err != nil {
					return err
				}
				return printStatus(cmd.OutOrStdout(), st, out)
			})
		},
	}
	out = cli.AddFormat(cmd, "what to write instead of a table", cli.JSON)
	return cmd
}

func printStatus(w io.Writer, st lab.Status, out *cli.Format) error {
	if out.IsForPrograms() {
		return cli.Encode(w, out.String(), st)
	}
	_, err := io.WriteString(w, st.Draw(time.Now(), cli.ScreenOf(w, os.Getenv).Look))
	return err
}
