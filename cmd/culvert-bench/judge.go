package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/report"
	"github.com/culvert-net/culvert/internal/admin/cli"
)

// judge holds the flags of a command that compares, and judges rules.
type judge struct {
	failIf       []string
	allowUnclear bool
	format       *cli.Format
}

// judgeFormats are the formats of a comparison other than text.
var judgeFormats = []string{cli.JSON, "junit", "markdown"}

func (j *judge) addFlags(cmd *cobra.Command) {
	j.format = cli.AddFormat(cmd, "what to write instead of text", judgeFormats...)
	cmd.Flags().StringArrayVar(&j.failIf, "fail-if", nil, "`RULE` that makes the exit status 1 when it is broken and 2 when it is unclear, such as 'throughput<-5%'")
	cmd.Flags().BoolVar(&j.allowUnclear, "allow-unclear", false, "an unclear rule does not fail: the exit status is 0, and JUnit has it as skipped")
}

// parseRules reads the rules of --fail-if.
func (j *judge) parseRules() (rules []bench.Rule, err error) {
	for _, s := range j.failIf {
		r, err := bench.ParseRule(s)
		if err != nil {
			return nil, fmt.Errorf("--fail-if: %w", err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// exitUnclear is the exit status when the runs do not show whether all rules are kept.
const exitUnclear = 2

// finish writes a comparison, and returns the exit status of its rules. Two single results are not
// judged, whatever is allowed.
func (j *judge) finish(cmd *cobra.Command, a bench.Against) error {
	if err := j.writeAgainst(cmd, a); err != nil {
		return err
	}
	switch {
	case len(a.Broken) > 0:
		return cli.ExitStatus(1)
	case len(a.Unclear) > 0 && (!j.allowUnclear || a.Design == bench.ByResults):
		return cli.ExitStatus(exitUnclear)
	}
	return nil
}

func (j *judge) writeAgainst(cmd *cobra.Command, a bench.Against) error {
	w := cmd.OutOrStdout()
	var written string
	switch j.format.String() {
	case cli.JSON:
		return report.AgainstJSON(w, a)
	case "junit":
		return report.AgainstJUnit(w, a, j.allowUnclear)
	case "markdown":
		written = report.AgainstMarkdown(a)
	default:
		look := cli.ScreenOf(w, os.Getenv).Look
		written = look.Fit(report.AgainstText(a, look))
	}
	_, err := io.WriteString(w, written)
	return err
}
