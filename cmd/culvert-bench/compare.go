package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/report"
	"github.com/culvert-net/culvert/cli"
)

func newCompareCommand() *cobra.Command {
	var failIf []string
	asDeployed := false
	cmd := &cobra.Command{
		Use:   "compare FIRST SECOND",
		Short: "Compare two results, and fail if the second is worse",
		Long: `Compares two results arm by arm: medians, the change with its 95 % interval, the
chance of such a change by accident (Mann and Whitney), and how far the runs of
both overlap (Cliff's delta: 1 and -1 are not at all).

--fail-if is for CI: METRIC<-PERCENT% or METRIC>PERCENT%, once or more. The
metrics are throughput, pps, p50, p99 (round trips) and cpu (for each Gb/s, or
packet). A rule breaks when an arm changed by more and that is no accident
(p < 0.05); and when it cannot be judged: an arm is gone, or has too few runs to
tell anything. Then the exit status is 1.

Results of unlike machines, interfaces or workloads are not compared, since their
difference says nothing of what was changed. --as-deployed compares them all the
same, and lists what is unlike.`,
		Example: `  culvert bench compare before.json after.json
  culvert bench compare main.json pr.json --fail-if 'throughput<-5%' \
    --fail-if 'p99>10%' -o junit > bench.xml`,
		Args: cobra.ExactArgs(2),
	}
	out := cli.AddFormat(cmd, "what to write instead of text", cli.JSON, "junit", "markdown")
	cmd.Flags().StringArrayVar(&failIf, "fail-if", nil, "`RULE` that makes the exit status 1, such as 'throughput<-5%'")
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
		return nil
	}
	return cmd
}

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
