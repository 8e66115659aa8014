package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/lab"
)

func newStatusCommand(name *string) *cobra.Command {
	var output string
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
				return printStatus(cmd.OutOrStdout(), st, output)
			})
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

func printStatus(w io.Writer, st lab.Status, output string) error {
	switch output {
	case "table":
		return st.Write(w, time.Now())
	case "json":
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		return out.Encode(st)
	}
	return fmt.Errorf("output %q: want table or json", output)
}
