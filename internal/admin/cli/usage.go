package cli

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/culvert-net/culvert/internal/screen"
)

func writeHelp(c *cobra.Command, _ []string) {
	fmt.Fprint(c.OutOrStdout(), Help(c, ScreenOf(c.OutOrStdout(), func(string) string { return "" }).Look))
}

// Help returns the help of a command, which fits the screen. It wraps the paragraphs of the description
// anew where they are too wide. Lines that begin with a space are tables and examples, and stay lines.
func Help(c *cobra.Command, look screen.Look) string {
	var parts []string
	for part := range strings.SplitSeq(strings.TrimSpace(cmp.Or(c.Long, c.Short)), "\n\n") {
		isProse := !strings.HasPrefix(part, " ") && !strings.Contains(part, "\n ")
		if fitted := look.Fit(part); isProse && fitted != part {
			part = strings.Join(screen.Wrap(part, look.Width), "\n")
		}
		parts = append(parts, part)
	}
	text := strings.Join(parts, "\n\n") + "\n\n"
	if c.Runnable() || c.HasSubCommands() {
		text += c.UsageString()
	}
	return look.Fit(text)
}

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
