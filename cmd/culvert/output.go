package main

import (
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/node/status/text"
)

// output is the -o flag of a command that shows something.
type output struct{ *cli.Format }

// addOutput gives cmd the flag; withWide if there are more columns to show.
func addOutput(cmd *cobra.Command, withWide bool) output {
	formats := []string{cli.JSON, cli.YAML}
	if withWide {
		formats = append(formats, cli.Wide)
	}
	return output{cli.AddFormat(cmd, "what to write instead of a table", formats...)}
}

// writeValue writes value as JSON or YAML for programs, or as the text of draw
// for people.
func (o output) writeValue(cmd *cobra.Command, value any, draw func(text.Options) string) error {
	if o.IsForPrograms() {
		return cli.Encode(cmd.OutOrStdout(), o.String(), value)
	}
	options := o.textOptions(cmd)
	_, err := io.WriteString(cmd.OutOrStdout(), options.Fit(draw(options)))
	return err
}

// textOptions returns the options for drawing on the command's output.
func (o output) textOptions(cmd *cobra.Command) text.Options {
	s := cli.ScreenOf(cmd.OutOrStdout(), os.Getenv)
	s.Wide = o.String() == cli.Wide
	return text.Options{Look: s.Look, Zone: time.Local}
}
