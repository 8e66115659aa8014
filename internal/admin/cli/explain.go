package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/suggest"
)

// Explain makes the errors about a program's command lines complete. Each names the command or the
// flag, says what that takes, and ends with a next step. It also makes unknown words after help and
// completion errors, which cobra answers with success. Call it once root has all its commands.
func Explain(root *cobra.Command) {
	root.SetFlagErrorFunc(explainFlag)
	root.SetUsageFunc(writeUsage)
	root.SetHelpFunc(writeHelp)
	root.SetHelpCommand(newHelp(root))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			refuseWords(c)
		}
	}
	if root.Run == nil && root.RunE == nil {
		refuseWords(root)
	}
	explainArgs(root)
}

func newHelp(root *cobra.Command) *cobra.Command {
	example := root.CommandPath() + " help"
	if names := namesOf(root); len(names) > 0 {
		example += " " + names[0]
	}
	return &cobra.Command{
		Use:     "help [COMMAND...]",
		Short:   "Show the help of a command",
		Long:    "Shows the help of a command, as --help after it does.",
		Example: "  " + example,
		Args:    cobra.ArbitraryArgs,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			if of, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				names = namesOf(of)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			of := cmd.Root()
			for _, word := range args {
				i := slices.IndexFunc(of.Commands(), func(c *cobra.Command) bool { return c.Name() == word || c.HasAlias(word) })
				if i < 0 {
					return noSuchCommand(of, word)
				}
				of = of.Commands()[i]
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

// refuseWords makes a word after a command an error unless it is one of the commands below it. The
// command alone shows its help.
func refuseWords(cmd *cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs // the error of RunE says more about a wrong word than cobra's
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return noSuchCommand(cmd, args[0])
	}
}

func noSuchCommand(cmd *cobra.Command, word string) error {
	known := namesOf(cmd)
	if len(known) == 0 {
		return fmt.Errorf("%s has no commands, and so no %s: %[1]s --help shows what it takes", cmd.CommandPath(), excerpt.Quote(word))
	}
	hint := suggest.DidYouMean(word, known)
	if hint == "" {
		hint = ": it has " + strings.Join(known, ", ")
	}
	return fmt.Errorf("%s has no command %s%s", cmd.CommandPath(), excerpt.Quote(word), hint)
}

// namesOf returns the names of the commands that the help of cmd lists.
func namesOf(cmd *cobra.Command) (names []string) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// explainArgs replaces cobra's errors about numbers of arguments and about flags that exclude each
// other, in cmd and all commands below it.
func explainArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if check(cmd, args) != nil {
				return argsError(cmd, args)
			}
			return explainGroups(cmd)
		}
	}
	for _, c := range cmd.Commands() {
		explainArgs(c)
	}
}

func argsError(cmd *cobra.Command, args []string) error {
	takes := "no arguments"
	if _, words, ok := strings.Cut(cmd.Use, " "); ok {
		takes = words
	}
	got := "nothing"
	if len(args) > 0 {
		got = excerpt.Quote(strings.Join(args, " "))
	}
	return fmt.Errorf("%s takes %s, and got %s: %s", cmd.CommandPath(), takes, got, nextStep(cmd))
}

// exclusive is the key under which cobra keeps the groups of flags that exclude each other, each as
// their names (Command.MarkFlagsMutuallyExclusive).
const exclusive = "cobra_annotation_mutually_exclusive"

// explainGroups names the flags of a command line that exclude each other.
func explainGroups(cmd *cobra.Command) error {
	given := map[string][]string{} // by group
	cmd.Flags().Visit(func(f *pflag.Flag) {
		for _, group := range f.Annotations[exclusive] {
			given[group] = append(given[group], f.Name)
		}
	})
	for _, group := range slices.Sorted(maps.Keys(given)) {
		if names := given[group]; len(names) > 1 {
			return fmt.Errorf("%s: --%s exclude each other: leave all but one out", cmd.CommandPath(), strings.Join(names, " and --"))
		}
	}
	return cmd.ValidateFlagGroups()
}

// nextStep names an example of a command, or its help if no line of its help is an example.
func nextStep(cmd *cobra.Command) string {
	return findExample(cmd, func(string) bool { return true })
}

// nextStepOf names an example of a flag, or the help.
func nextStepOf(cmd *cobra.Command, f *pflag.Flag) string {
	return findExample(cmd, func(line string) bool {
		words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '=' })
		return slices.Contains(words, "--"+f.Name) || f.Shorthand != "" && slices.Contains(words, "-"+f.Shorthand)
	})
}

func findExample(cmd *cobra.Command, fits func(line string) bool) string {
	for line := range strings.Lines(cmd.Example) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "  #")
		line = strings.TrimSpace(line)
		isWhole := strings.HasPrefix(strings.TrimPrefix(line, "sudo "), cmd.CommandPath()) && !strings.HasSuffix(line, `\`) && !strings.Contains(line, "<<")
		if isWhole && fits(line) {
			return "for example: " + line
		}
	}
	return cmd.CommandPath() + " --help shows its flags"
}

// explainFlag replaces the errors of pflag.
func explainFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	var syntax *pflag.InvalidSyntaxError
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return err
	case errors.As(err, &unknown):
		return unknownFlag(cmd, unknown)
	case errors.As(err, &missing):
		return fmt.Errorf("%s: --%s needs a value (%s): %s", cmd.CommandPath(), missing.GetFlag().Name, plainUsage(missing.GetFlag()), nextStepOf(cmd, missing.GetFlag()))
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		return fmt.Errorf("%s: --%s %s: %s", cmd.CommandPath(), f.Name, excerpt.Quote(invalid.GetValue()), wanted(f, invalid))
	case errors.As(err, &syntax):
		return fmt.Errorf("%s: %s is no flag: flags are like --name=value: %s", cmd.CommandPath(), excerpt.Quote(syntax.GetSpecifiedFlag()), nextStep(cmd))
	}
	return fmt.Errorf("%s: %w: %s --help shows its flags", cmd.CommandPath(), err, cmd.CommandPath())
}

func unknownFlag(cmd *cobra.Command, unknown *pflag.NotExistError) error {
	if unknown.GetSpecifiedShortnames() != "" {
		return fmt.Errorf("%s has no flag -%s: %[1]s --help lists its flags", cmd.CommandPath(), excerpt.Clean(unknown.GetSpecifiedName()))
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	hint := fmt.Sprintf(": %s --help lists its flags", cmd.CommandPath())
	if near := suggest.Nearest(unknown.GetSpecifiedName(), known); near != "" {
		hint = ": did you mean --" + near + "?"
	}
	return fmt.Errorf("%s has no flag --%s%s", cmd.CommandPath(), excerpt.Clean(unknown.GetSpecifiedName()), hint)
}

// isBounded reports whether the error of a flag's value names the values that it takes.
func isBounded(f *pflag.Flag) bool {
	_, ok := f.Value.(*span)
	return ok
}

// plainUsage returns the description of a flag's value.
func plainUsage(f *pflag.Flag) string {
	_, usage := pflag.UnquoteUsage(f)
	return usage
}

// wanted says which values a flag takes. Numbers have bounds (AddCount, AddNumber), whose errors name
// them.
func wanted(f *pflag.Flag, err error) string {
	switch kind := f.Value.Type(); {
	case kind == "duration" && !isBounded(f):
		return "want a time such as 90s or 500ms"
	case kind == "bool":
		return "want true or false"
	}
	if cause := errors.Unwrap(err); cause != nil {
		return cause.Error()
	}
	return err.Error()
}
