package helptext

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// CheckReference fails the test unless a page of docs/reference has every command of a program with
// its flags. With the test's flag -update it writes the page. It leaves out commands below the root
// whose names are in others.
func CheckReference(t *testing.T, page string, root *cobra.Command, others ...string) {
	t.Helper()
	want := renderReference(t, root, others)
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is not current: run this test with -update (-want +got):\n%s", page, diff)
	}
}

// renderReference returns the page of a program in Markdown.
func renderReference(t *testing.T, root *cobra.Command, others []string) string {
	t.Helper()
	var out strings.Builder
	fmt.Fprintf(&out, "# %s: commands and flags\n\nEach command also has the flag `--help`, whose text has examples.\n\n"+
		"<!-- Written from the program, by `tools/go test ./cmd/%[1]s -run Reference -update`:\nchange it there. -->\n", root.Name())
	writeCommand(t, &out, root, append(others, "completion", "help"))
	return out.String()
}

func writeCommand(t *testing.T, out *strings.Builder, c *cobra.Command, others []string) {
	t.Helper()
	if c.Hidden {
		return
	}
	fmt.Fprintf(out, "\n## %s\n\n%s.\n\n    %s\n", c.CommandPath(), strings.TrimSuffix(c.Short, "."), c.UseLine())
	var rows []string
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || c.HasParent() && c.InheritedFlags().Lookup(f.Name) != nil {
			return
		}
		if f.Usage == "" {
			t.Errorf("%s --%s has no description", c.CommandPath(), f.Name)
		}
		rows = append(rows, describeFlag(f))
	})
	if len(rows) > 0 {
		fmt.Fprintf(out, "\n| flag | default | meaning |\n|---|---|---|\n%s\n", strings.Join(rows, "\n"))
	}
	for _, sub := range c.Commands() {
		if !slices.Contains(others, sub.Name()) {
			writeCommand(t, out, sub, others)
		}
	}
}

// describeFlag returns a flag's row of a table.
func describeFlag(f *pflag.Flag) string {
	value, usage := pflag.UnquoteUsage(f)
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if value != "" {
		name += " " + value
	}
	shown := "-"
	if f.DefValue != "" && f.DefValue != "[]" {
		shown = "`" + f.DefValue + "`"
	}
	escape := strings.NewReplacer("|", "\\|", "<", "&lt;", "\n", " ").Replace
	return fmt.Sprintf("| `%s` | %s | %s |", name, escape(shown), escape(usage))
}
