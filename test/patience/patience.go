// Package patience forgives measurements that a busy machine made void. Tests that show whether a
// measurement works run beside other programs, and judge no figures.
package patience

import (
	"slices"
	"strings"

	"github.com/culvert-net/culvert/bench"
)

// OnlyBusyIsMissing reports whether a result has void runs, and all of them are void because the
// machine was busy. Each arm then has been measured as far as this machine can at the moment.
func OnlyBusyIsMissing(r bench.Result) bool {
	isVoid := func(run bench.Run) bool { return run.Void != "" }
	return slices.ContainsFunc(r.Runs, isVoid) && !slices.ContainsFunc(r.Runs, func(run bench.Run) bool { return isVoid(run) && !wasBusy(run) })
}

// HasRun reports whether an arm has a run that counts, or one that only a busy machine made void.
func HasRun(r bench.Result, arm int) bool {
	return slices.ContainsFunc(r.Runs, func(run bench.Run) bool {
		return run.Arm == arm && !run.Discard && (run.Void == "" || wasBusy(run))
	})
}

func wasBusy(run bench.Run) bool { return strings.HasSuffix(run.Void, bench.Busy) }
