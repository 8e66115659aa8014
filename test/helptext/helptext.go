// Package helptext checks the help of a program's commands.
package helptext

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/test/prose"
)

// Check fails the test for each command without a short line, a long text, or an example
// that names the command. It also fails for lines of more than 82 columns, for help that does
// not fit a narrow terminal, and for texts that are not plain (package prose). It leaves out commands below the root whose names
// are in others.
func Check(t *testing.T, root *cobra.Command, others ...string) {
	t.Helper()
	root.InitDefaultCompletionCmd()
	checkCommand(t, root, append(others, "completion"))
}

// checkWidths fails the test if the help of a command does not fit a narrow terminal.
func checkWidths(t *testing.T, c *cobra.Command) {
	t.Helper()
	for _, width := range []int{100, 60, 40} {
		for line := range strings.Lines(cli.Help(c, screen.Look{Width: width})) {
			if n := screen.Columns(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%s --help in %d columns has %d: %s", c.CommandPath(), width, n, line)
			}
		}
	}
}

func checkCommand(t *testing.T, c *cobra.Command, others []string) {
	t.Helper()
	if c.Short == "" || c.Long == "" || !strings.Contains(c.Example, c.CommandPath()) {
		t.Errorf("%s: a short line, a long text and an example are wanted", c.CommandPath())
	}
	for _, hit := range slices.Concat(prose.FindHelp(c.Short), prose.FindHelp(c.Long)) {
		t.Errorf("%s --help: %s", c.CommandPath(), hit)
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		for _, hit := range prose.FindHelp(f.Usage) {
			t.Errorf("%s --%s: %s", c.CommandPath(), f.Name, hit)
		}
	})
	for _, text := range []string{c.Long, c.Example} {
		for _, line := range strings.Split(text, "\n") {
			if len(line) > 82 {
				t.Errorf("%s --help: %d columns: %s", c.CommandPath(), len(line), line)
			}
		}
	}
	checkWidths(t, c)
	for _, sub := range c.Commands() {
		if !slices.Contains(others, sub.Name()) {
			checkCommand(t, sub, others)
		}
	}
}
