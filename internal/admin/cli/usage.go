package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// writeUsage writes the part of a command's help below its description. The flags fit the screen. It is
// no template: package text/template would make a program that links it some megabytes larger.
func writeUsage(c *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if c.Runnable() {
		fmt.Fprintf(&b, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n", c.CommandPath())
	}
	section := func(title, text string) {
		if text = strings.TrimRight(text, " \n"); text != "" {
			fmt.Fprintf(&b, "\n%s:\n%s\n", title, text)
		}
	}
	if len(c.Aliases) > 0 {
		section("Aliases", "  "+c.NameAndAliases())
	}
	section("Examples", c.Example)
	section("Available Commands", listCommands(c))
	width := ScreenOf(os.Stdout, func(string) string { return "" }).Width
	for _, part := range []struct {
		title string
		flags *pflag.FlagSet
	}{{"Flags", c.LocalFlags()}, {"Global Flags", c.InheritedFlags()}} {
		if part.flags.HasAvailableFlags() {
			section(part.title, part.flags.FlagUsagesWrapped(width))
		}
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse \"%s [command] --help\" for more information about a command.\n", c.CommandPath())
	}
	_, err := fmt.Fprint(c.OutOrStderr(), b.String())
	return err
}

func listCommands(c *cobra.Command) string {
	var b strings.Builder
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			fmt.Fprintf(&b, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
		}
	}
	return b.String()
}
