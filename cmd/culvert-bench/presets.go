package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/preset"
	"github.com/culvert-net/culvert/cli"
)

func newPresetsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "presets",
		Short: "List the figures of the field reports that can be measured again",
		Long: `Lists the presets m1 to m18: what was measured by which report, what it printed,
what it takes, and what is measured instead where nobody has that. culvert bench
run measures the one that is named.`,
		Example: `  culvert bench presets
  culvert bench presets -o json | jq -r '.[] | select(.refused == null).name'
  culvert bench run m4 --quick --from netns:a --to netns:b`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	out := cli.AddFormat(cmd, "what to write instead of text", cli.JSON, cli.YAML)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if out.IsForPrograms() {
			return cli.Encode(cmd.OutOrStdout(), out.String(), preset.All())
		}
		_, err := io.WriteString(cmd.OutOrStdout(), presetText(preset.All(), cli.ScreenOf(cmd.OutOrStdout(), os.Getenv).Width))
		return err
	}
	return cmd
}

// presetText is a paragraph for each: a table of so much text would be cut.
func presetText(all []preset.Preset, width int) string {
	var b strings.Builder
	for _, p := range all {
		fmt.Fprintf(&b, "%-4s %s  %s\n", p.Name, p.Report, p.About)
		line := func(what, s string) {
			if s != "" {
				b.WriteString(hang("         "+what+": ", s, width))
			}
		}
		line("printed", figures(p.Printed))
		line("takes", p.Needs)
		line("instead", p.Instead)
		line("refused", p.Refused)
	}
	return b.String()
}

func figures(all []bench.Figure) string {
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

// hang writes words in lines of that width, below each other after a head.
func hang(head, s string, width int) string {
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

// presetWords are for completion.
func presetWords() []cobra.Completion {
	var all []cobra.Completion
	for _, p := range preset.All() {
		all = append(all, cobra.CompletionWithDesc(p.Name, p.Report+": "+p.About))
	}
	return all
}

// indentLines moves each line of s by two columns.
func indentLines(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }
