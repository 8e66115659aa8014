// Package helptext checks what the commands of a program say of themselves.
package helptext

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Check wants of every command that it says what it does in a line and at length, and
// shows an example that names it, in lines of at most 82 columns. Commands below the
// root with one of the names in others are not looked at.
func Check(t *testing.T, root *cobra.Command, others ...string) {
	t.Helper()
	root.InitDefaultCompletionCmd()
	check(t, root, append(others, "completion"))
}

func check(t *testing.T, c *cobra.Command, others []string) {
	t.Helper()
	if c.Short == "" || c.Long == "" || !strings.Contains(c.Example, c.CommandPath()) {
		t.Errorf("%s: a short line, a long text and an example are wanted", c.CommandPath())
	}
	for _, text := range []string{c.Long, c.Example} {
		for _, line := range strings.Split(text, "\n") {
			if len(line) > 82 {
				t.Errorf("%s --help: %d columns: %s", c.CommandPath(), len(line), line)
			}
		}
	}
	for _, sub := range c.Commands() {
		if !slices.Contains(others, sub.Name()) {
			check(t, sub, others)
		}
	}
}
