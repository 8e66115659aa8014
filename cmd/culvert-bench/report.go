package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/report"
	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/durable"
)

func newReportCommand() *cobra.Command {
	var page string
	cmd := &cobra.Command{
		Use:   "report FILE",
		Short: "Show a result: a headline, tables, limits, and a page with charts",
		Long: `Shows the result of a measurement: a headline, the arms of each question with
their 95 % intervals, their limits with the evidence, paths and machines, and
warnings. The text has at most 100 columns, to paste into an issue.

With --html it writes one page with charts, light or dark, for a desk or a phone.
The page needs no network and no script. All measurements are in a second file
beside it, whose name ends with .json.gz, and the page has a link to that file.

FILE is JSON of the form in docs/reference/bench-result.md, also compressed by
gzip; - is standard input. The command refuses a file that is cut off or
malformed.`,
		Example: `  culvert bench report result.json
  culvert bench report result.json --html result.html
  culvert bench report result.json -o csv > runs.csv      # one line a run`,
		Args: cobra.ExactArgs(1),
	}
	out := cli.AddFormat(cmd, "what to write instead of text", cli.JSON, "csv")
	cmd.Flags().StringVar(&page, "html", "", "`FILE` to write a page with charts to")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := readResult(cmd, args[0])
		if err != nil {
			return err
		}
		if page != "" {
			if err := writePage(page, r); err != nil {
				return err
			}
		}
		switch out.String() {
		case cli.JSON:
			return bench.Write(cmd.OutOrStdout(), r)
		case "csv":
			return report.CSV(cmd.OutOrStdout(), r)
		}
		look := cli.ScreenOf(cmd.OutOrStdout(), os.Getenv).Look
		if page != "" {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\nIn full: %s\n", look.Fit(report.Sentence(r)), page)
			return err
		}
		_, err = io.WriteString(cmd.OutOrStdout(), look.Fit(report.Text(r, look)))
		return err
	}
	return cmd
}

// writePage writes a page and the file with its measurements beside it.
func writePage(page string, r bench.Result) error {
	data := report.DataName(page)
	return errors.Join(
		durable.Write(page, 0o644, func(w io.Writer) error { return report.HTML(w, r, filepath.Base(data)) }),
		durable.Write(data, 0o644, func(w io.Writer) error { return report.Data(w, r) }),
	)
}

// readResult reads a file that `culvert bench run` wrote; - is standard input.
func readResult(cmd *cobra.Command, name string) (bench.Result, error) {
	in := cmd.InOrStdin()
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return bench.Result{}, cli.ExplainFile(name, err)
		}
		defer f.Close()
		in = f
	}
	r, err := bench.Read(in)
	if errors.Is(err, syscall.EISDIR) {
		return bench.Result{}, cli.ExplainFile(name, err)
	}
	if err != nil {
		return bench.Result{}, fmt.Errorf("result %s: %w: name a file that culvert bench run wrote", name, err)
	}
	return r, nil
}
