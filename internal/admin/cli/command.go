package cli

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/suggest"
)

// Group makes cmd a command that only has commands below it: alone it shows its
// help, and a word that is none of them is an error.
func Group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(commands...)
	cmd.Args = cobra.ArbitraryArgs // the error of RunE says more about a wrong word than cobra's
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		var known []string
		for _, c := range commands {
			if !c.Hidden {
				known = append(known, c.Name())
			}
		}
		return fmt.Errorf("%s has no command %q%s", cmd.CommandPath(), args[0], orList(suggest.DidYouMean(args[0], known), known))
	}
	return cmd
}

func orList(hint string, known []string) string {
	if hint == "" {
		return ": it has " + strings.Join(known, ", ")
	}
	return hint
}

// NewRoot makes the root command of a program that the command "culvert WORD" execs,
// which is also how its help calls it.
func NewRoot(word, version string, cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Use = "culvert-" + word
	cmd.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "culvert " + word}
	cmd.SilenceUsage, cmd.SilenceErrors, cmd.DisableAutoGenTag = true, true, true
	cmd.CompletionOptions.HiddenDefaultCmd = true // culvert's own completion asks this program
	return Group(cmd, append(commands, NewVersion(cmd.Use, version))...)
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
			fmt.Fprintf(cmd.OutOrStdout(), "%s %s (%s, %s/%s)\n", program, version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}
