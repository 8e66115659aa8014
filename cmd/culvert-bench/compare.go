package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/report"
	"github.com/culvert-net/culvert/internal/admin/cli"
)

func newCompareCommand() *cobra.Command {
	var failIf []string
	asDeployed := false
	cmd := &cobra.Command{
		Use:   "compare FIRST SECOND",
		Short: "Compare two results, and fail if the second is worse",
		Long: `Compares two results arm by arm: medians, the change with its bounds, and the
chance of such a change by accident. (The test is that of Mann and Whitney,
corrected by Holm for the number of figures; those that rules name count apart
from the others.) Each figure is better, worse, "not
worse by 5 %", or "cannot tell". For the last it prints the number of rounds that
would be enough.

--fail-if is for CI: METRIC<-PERCENT% or METRIC>PERCENT%, once or more. The
metrics are throughput, pps, p50, p99 (round trips) and cpu (for each Gb/s, or
packet). A rule breaks when an arm changed by more and that is no accident, and
when an arm is missing: the exit status is 1. It is kept when each arm, judged by
itself, shows that it lost no more (one-sided, at 95 %). When there are too few
runs to decide, the exit status is 2. The runs of two results were made at other
times: what changed between these times counts as a change, too.

The command does not compare results of unlike machines, interfaces or workloads,
since the difference may come from them. --as-deployed compares them all the same,
and lists the differences.`,
		Example: `  culvert bench compare before.json after.json
  culvert bench compare main.json pr.json --fail-if 'throughput<-5%' \
    --fail-if 'p99>10%' -o junit > bench.xml`,
		Args: cobra.ExactArgs(2),
	}
	out := cli.AddFormat(cmd, "what to write instead of text", cli.JSON, "junit", "markdown")
	cmd.Flags().StringArrayVar(&failIf, "fail-if", nil, "`RULE` that makes the exit status 1 when it is broken and 2 when the runs cannot decide it, such as 'throughput<-5%'")
	cmd.Flags().BoolVar(&asDeployed, "as-deployed", false, "compare results of unlike machines or workloads too")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a, err := compareResults(cmd, args, failIf)
		if err != nil {
			return err
		}
		if len(a.Unlike) > 0 && !asDeployed {
			return fmt.Errorf("%s and %s are unlike, and what they differ in may be all that is seen:\n  %s\n--as-deployed compares them all the same",
				args[0], args[1], strings.Join(a.Unlike, "\n  "))
		}
		if err := writeAgainst(cmd, out, a); err != nil {
			return err
		}
		if len(a.Broken) > 0 {
			return cli.ExitStatus(1)
		}
		if len(a.Unclear) > 0 {
			return cli.ExitStatus(exitUnclear)
		}
		return nil
	}
	return cmd
}

// exitUnclear is the exit status when the runs do not show whether all rules are kept.
const exitUnclear = 2

func compareResults(cmd *cobra.Command, names, failIf []string) (bench.Against, error) {
	var rules []bench.Rule
	for _, s := range failIf {
		r, err := bench.ParseRule(s)
		if err != nil {
			return bench.Against{}, fmt.Errorf("--fail-if: %w", err)
		}
		rules = append(rules, r)
	}
	first, err := readResult(cmd, names[0])
	if err != nil {
		return bench.Against{}, err
	}
	second, err := readResult(cmd, names[1])
	if err != nil {
		return bench.Against{}, err
	}
	return bench.Compare(first, second, rules), nil
}

func writeAgainst(cmd *cobra.Command, out *cli.Format, a bench.Against) error {
	w := cmd.OutOrStdout()
	var written string
	switch out.String() {
	case cli.JSON:
		return report.AgainstJSON(w, a)
	case "junit":
		return report.AgainstJUnit(w, a)
	case "markdown":
		written = report.AgainstMarkdown(a)
	default:
		written = report.AgainstText(a, cli.ScreenOf(cmd.OutOrStdout(), os.Getenv).Look)
	}
	_, err := io.WriteString(w, written)
	return err
}
