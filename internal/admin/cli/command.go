package cli

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
)

// Group makes cmd a command that only has commands below it: alone it shows its
// help, and a word that is none of them is an error.
func Group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(commands...)
	refuseWords(cmd)
	return cmd
}

// NewRoot makes the root command of a program that the command "culvert WORD" execs,
// which is also how its help calls it.
func NewRoot(word, version string, cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Use = "culvert-" + word
	cmd.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "culvert " + word}
	cmd.SilenceUsage, cmd.SilenceErrors, cmd.DisableAutoGenTag = true, true, true
	cmd.CompletionOptions.HiddenDefaultCmd = true // culvert's own completion asks this program
	cmd.Version = version
	Group(cmd, append(commands, NewVersion(cmd.Use, version))...)
	Explain(cmd)
	return cmd
}

func versionLine(program, version string) string {
	return fmt.Sprintf("%s %s (%s, %s/%s)\n", program, version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// NewVersion makes the command that shows a program's version.
func NewVersion(program, version string) *cobra.Command {
	return &cobra.Command{
		Use:               "version",
		Short:             "Show the version of this program",
		Long:              `Shows the version of this program, of Go, and what it was built for.`,
		Example:           "  " + strings.ReplaceAll(program, "-", " ") + " version",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprint(cmd.OutOrStdout(), versionLine(program, version))
		},
	}
}
