package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/bench"
)

func newCompareCommand() *cobra.Command {
	var j judge
	asDeployed := false
	cmd := &cobra.Command{
		Use:   "compare FIRST SECOND",
		Short: "Compare two folders of results, or look at two results",
		Long: `Compares two folders of results arm by arm. Each result is one value, the median
of an arm's runs, so that differences between days and machines count as chance.
(The test is that of Mann and Whitney, corrected by Holm for the number of
figures; those that rules name count apart from the others.) Each figure is
better, worse, "not worse by 5 %", or "cannot tell". For the last it prints the
number of results that would be enough. Four results in each folder are the fewest
that can show a change.

For two single results it prints the medians and their ratio, and judges
nothing: how far results of the same machine lie apart is not in them. Compare two
builds or settings in one run: culvert bench run --ab.

--fail-if is for CI: METRIC<-PERCENT% or METRIC>PERCENT%, once or more. The
metrics are throughput, pps, requests, p50, p99 (round trips) and cpu (for each
Gb/s, or packet). A rule breaks when an arm changed by more and that is no
accident, and when an arm is missing: the exit status is 1. It is kept when each
arm, judged by itself, shows that it lost no more (one-sided, at 95 %). Otherwise,
and always between two single results, it is unclear: the exit status is 2, and
JUnit has a failure. --allow-unclear says that unclear rules do not fail.

The command does not compare results of unlike machines, interfaces or workloads,
since the difference may come from them. --as-deployed compares them all the same,
and lists the differences.`,
		Example: `  culvert bench compare main/ pr/ --fail-if 'throughput<-5%' \
    --fail-if 'p99>10%' -o junit > bench.xml
  culvert bench compare before.json after.json`,
		Args: cobra.ExactArgs(2),
	}
	j.addFlags(cmd)
	cmd.Flags().BoolVar(&asDeployed, "as-deployed", false, "compare results of unlike machines or workloads too")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		rules, err := j.parseRules()
		if err != nil {
			return err
		}
		a, err := compareArguments(cmd, args[0], args[1], rules)
		if err != nil {
			return err
		}
		if len(a.Unlike) > 0 && !asDeployed {
			return fmt.Errorf("%s and %s are unlike, and what they differ in may be all that is seen:\n  %s\n--as-deployed compares them all the same",
				args[0], args[1], strings.Join(a.Unlike, "\n  "))
		}
		return j.finish(cmd, a)
	}
	return cmd
}

// compareArguments compares two folders, or two results.
func compareArguments(cmd *cobra.Command, first, second string, rules []bench.Rule) (against bench.Against, err error) {
	switch a, b := isFolder(first), isFolder(second); {
	case a && b:
		return compareFolders(cmd, first, second, rules)
	case a != b:
		return against, fmt.Errorf("%s and %s: compare two folders of results, or two results", first, second)
	}
	a, err := readResult(cmd, first)
	if err != nil {
		return against, err
	}
	b, err := readResult(cmd, second)
	if err != nil {
		return against, err
	}
	return bench.CompareResults(a, b, rules), nil
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// compareFolders compares the results of two folders. All of them have to be like the first.
func compareFolders(cmd *cobra.Command, first, second string, rules []bench.Rule) (against bench.Against, err error) {
	var model *bench.Result
	var unlike []string
	var groups [2][]bench.Observation
	for i, folder := range []string{first, second} {
		files, err := filepath.Glob(filepath.Join(folder, "*.json"))
		if err != nil || len(files) == 0 {
			return against, errors.Join(err, fmt.Errorf("%s has no results (*.json)", folder))
		}
		for _, file := range files {
			r, err := readResult(cmd, file)
			if err != nil {
				return against, err
			}
			groups[i] = append(groups[i], bench.Observe(r))
			if model == nil {
				model = &r
			}
			for _, u := range bench.Unlike(*model, r) {
				if !slices.Contains(unlike, u) {
					unlike = append(unlike, u)
				}
			}
		}
	}
	against = bench.CompareFolders(groups[0], groups[1], rules)
	against.Unlike = unlike
	return against, nil
}
