package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/preset"
	"github.com/culvert-net/culvert/internal/admin/cli"
)

func newPresetsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "presets",
		Short: "List the figures of the field reports that can be measured again",
		Long: `Lists the presets m1 to m18. Each has the report that measured it, the workload,
the printed figure, the requirements, and the replacement where they are missing.
Pass a preset's name to culvert bench run to measure it.`,
		Example: `  culvert bench presets
  culvert bench presets -o json | jq -r '.[] | select(.report == "R4").name'
  culvert bench run m4 --quick --from netns:a --to netns:b`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	out := cli.AddFormat(cmd, "what to write instead of text", cli.JSON, cli.YAML)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if out.IsForPrograms() {
			return cli.Encode(cmd.OutOrStdout(), out.String(), preset.All())
		}
		look := cli.ScreenOf(cmd.OutOrStdout(), os.Getenv).Look
		_, err := io.WriteString(cmd.OutOrStdout(), look.Fit(presetText(preset.All(), look.Width)))
		return err
	}
	return cmd
}

// presetText returns a paragraph for each preset, since a table would cut texts of this length.
func presetText(all []preset.Preset, width int) string {
	var b strings.Builder
	for _, p := range all {
		fmt.Fprintf(&b, "%-4s %s  %s\n", p.Name, p.Report, p.About)
		line := func(what, s string) {
			if s != "" {
				b.WriteString(hangIndent("         "+what+": ", s, width))
			}
		}
		line("printed", joinFigures(p.Printed))
		line("takes", p.Needs)
		line("instead", p.Instead)
	}
	return b.String()
}

func joinFigures(all []bench.Figure) string {
	var out []string
	for _, f := range all {
		value := f.Text
		if value == "" {
			value = bench.Number(f.Value) + " " + f.Unit
		}
		out = append(out, f.Name+" "+value)
	}
	return strings.Join(out, ", ")
}

// hangIndent writes words in lines of that width, below each other after a head.
func hangIndent(head, s string, width int) string {
	var b strings.Builder
	b.WriteString(head)
	column := len(head)
	for i, word := range strings.Fields(s) {
		if i > 0 && column+1+len(word) > width {
			b.WriteString("\n" + strings.Repeat(" ", len(head)))
			column = len(head)
		} else if i > 0 {
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String() + "\n"
}

// presetWords returns the words for completion.
func presetWords() []cobra.Completion {
	var all []cobra.Completion
	for _, p := range preset.All() {
		all = append(all, cobra.CompletionWithDesc(p.Name, p.Report+": "+p.About))
	}
	return all
}

// indentLines moves each line of s by two columns.
func indentLines(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }
