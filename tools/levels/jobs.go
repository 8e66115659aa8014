package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A job is one command of `make test`. Its output is in build/log/NAME.log.
type job struct {
	name  string
	level string // which `make test-LEVEL` it is part of
	needs []string
	slots int // of the machine's, which has one for each core; see alone
	// spare is whether the job takes no slot, but runs in the time that others leave, one such
	// job after the other. Compilers and the race detector need gigabytes each.
	spare bool
	nice  int // nice(1): a lab has the processors first, since its nodes and its measurements cannot wait
	nodes int // lab nodes of 2 GiB that it has at most at one time
	argv  []string
	long  bool // only `make soak` runs it
}

// alone is the number of slots of a job that runs beside no other, and allSlots that of a job beside
// which only spare jobs run.
const (
	alone    = math.MaxInt
	allSlots = alone - 1
)

// jobs has all jobs. Of the jobs that may start, the schedule starts those at the top first. The
// longest jobs are at the top, so that no long job is left for the end. A job with a lab takes a
// slot although it waits for timers half of the time, which is when the spare jobs run. Jobs that
// measure run alone. The flag -short skips tests that take minutes; `make soak` runs the jobs
// without it.
var jobs = []job{
	{name: "build", level: "build", slots: 1, argv: splitWords("make --no-print-directory -s test-build")},
	{name: "image", level: "lab", needs: splitWords("build"), slots: 1, nodes: 1, argv: splitWords("tools/test-lab image")},
	// It takes a second if the cache has all parts, and otherwise ten minutes or more.
	{name: "parts", level: "kubernetes", nice: 5, argv: splitWords("tools/parts")},
	{name: "lint", level: "lint", spare: true, nice: 15, argv: splitWords("tools/lint")},

	// With another lab beside it, a cluster's programs time out on slow machines, and do their work
	// again. The spare jobs run meanwhile.
	{name: "kubernetes", level: "kubernetes", needs: splitWords("image parts"), slots: allSlots, nodes: 2,
		argv: gotestArgs("kubernetes", "tools/go test -tags kubernetes -count=1 -timeout 40m -v", "-short -tags kubernetes -count=1 -timeout 90m -v -skip AirGapped|Calico|CRIO|Tasks ./test/kubernetes")},
	// The same short tests on the oldest Kubernetes, and its build, ten minutes, where the cache does not
	// have it. `make soak` takes -short away, and leaves -short=true.
	{name: "kubernetes-1.34", level: "kubernetes", needs: splitWords("image parts"), slots: allSlots, nodes: 2, long: true,
		argv: gotestArgs("kubernetes-1.34", "tools/go test -tags kubernetes -count=1 -timeout 60m -v", "-short=true -tags kubernetes -count=1 -timeout 90m -v -skip AirGapped|Calico|CRIO|Tasks ./test/kubernetes -args -kubernetes-version 1.34.3")},
	// A cluster of its own, and the build of Calico where the cache does not have it.
	{name: "kubernetes-calico", level: "kubernetes", needs: splitWords("image parts"), slots: allSlots, nodes: 2, long: true,
		argv: gotestArgs("kubernetes-calico", "tools/go test -tags kubernetes -count=1 -timeout 60m -v", "-tags kubernetes -count=1 -timeout 90m -v -run Calico ./test/kubernetes")},
	// Clusters that no other test has used.
	{name: "kubernetes-tasks", level: "kubernetes", needs: splitWords("image parts"), slots: allSlots, nodes: 2, long: true,
		argv: gotestArgs("kubernetes-tasks", "tools/go test -tags kubernetes -count=1 -timeout 60m -v", "-tags kubernetes -count=1 -timeout 60m -v -run AirGapped|Tasks ./test/kubernetes")},
	// A cluster of its own, and the build of CRI-O, ten minutes, where the cache does not have it.
	{name: "kubernetes-crio", level: "kubernetes", needs: splitWords("image parts"), slots: allSlots, nodes: 1, long: true,
		argv: gotestArgs("kubernetes-crio", "tools/go test -tags kubernetes -count=1 -timeout 60m -v", "-tags kubernetes -count=1 -timeout 90m -v -run CRIO ./test/kubernetes")},
	{name: "lab-host", level: "lab", needs: splitWords("image"), slots: 1, nodes: 2, argv: splitWords("tools/test-lab host -short")},
	{name: "unit", level: "unit", needs: splitWords("parts"), spare: true, nice: 15, argv: splitWords("tools/test-unit rest -short")}, // bench/place starts an API server
	{name: "unit-plain", level: "unit", spare: true, nice: 15, argv: splitWords("tools/test-unit plain -short")},
	{name: "unit-seeds", level: "unit", spare: true, nice: 15, argv: splitWords("tools/test-unit seeds -short")},
	// All of test/failure. The job unit runs a sample of it under the race detector.
	{name: "failure", level: "unit", spare: true, nice: 15, long: true, argv: gotestArgs("failure", "tools/go test", "-timeout 60m ./test/failure")},
	{name: "lab-node", level: "lab", needs: splitWords("image"), slots: 1, nodes: 1, argv: splitWords("tools/test-lab node -short")},
	{name: "lab-guests", level: "lab", needs: splitWords("image"), slots: 1, nodes: 2, argv: splitWords("tools/test-lab guests -short")},
	{name: "lab-e2e", level: "lab", needs: splitWords("image"), slots: 1, nodes: 2, argv: splitWords("tools/test-lab e2e -short")},

	// Without the race detector, since that would itself take most of the memory.
	{name: "memory", level: "unit", spare: true, nice: 15, argv: gotestArgs("memory", "tools/go test", "-short -run MemoryOfLargeLedgers ./internal/node/journal")},
	// The parsers that do not import Kubernetes: for the fuzzer, Go compiles all imports once more.
	{name: "fuzz", level: "unit", spare: true, nice: 15, argv: splitWords("env FUZZTIME=500x JOBS=1 tools/fuzz " +
		"./internal/node/claims ./cmd/culvert-cni ./internal/guest ./internal/network/ipam ./internal/node/journal ./internal/kernel/rtnl ./internal/guest/libvirt ./internal/network/netannotation ./internal/network/netconf ./internal/rpc ./internal/network/strictjson ./internal/vf")},
	{name: "fuzz-all", level: "unit", spare: true, nice: 15, long: true, argv: splitWords("env FUZZTIME=500x JOBS=1 tools/fuzz")},
	// These jobs measure, so no other job runs at the same time. Beside the Kubernetes level, the
	// agents of TestBench woke up too late, and its result was void. Each second of theirs is one
	// of `make test`, so tests that measure nothing belong to other jobs.
	{name: "lab-bench", level: "lab", needs: splitWords("image"), slots: alone, nodes: 4, argv: splitWords("tools/test-lab bench -short")},
	{name: "unit-bench", level: "unit", slots: alone, argv: splitWords("tools/test-unit bench -short")},
}

func splitWords(s string) []string { return strings.Fields(s) }

// gotestArgs returns tools/gotest with its arguments: the beginning of a command that repeats a
// test, and the arguments of go test.
func gotestArgs(as, repeat, args string) []string {
	return append([]string{"tools/run", "gotest", "-as", as, "-repeat", repeat, "--"}, splitWords(args)...)
}

// fullJobs returns the jobs of `make soak`: all of them, without -short.
func fullJobs(all []job) []job {
	full := slices.Clone(all)
	for i := range full {
		full[i].argv = slices.DeleteFunc(slices.Clone(full[i].argv), func(arg string) bool { return arg == "-short" })
	}
	return full
}

// shortJobs returns the jobs of `make test`.
func shortJobs(all []job) []job {
	return slices.DeleteFunc(slices.Clone(all), func(j job) bool { return j.long })
}

// chooseJobs returns the jobs of the levels, and the jobs that these need. Without levels it
// returns all.
func chooseJobs(all []job, levels []string) ([]job, error) {
	wanted := map[string]bool{}
	for _, level := range levels {
		if !slices.ContainsFunc(all, func(j job) bool { return j.level == level }) {
			return nil, fmt.Errorf("there is no level %q", level)
		}
	}
	for _, j := range slices.Backward(all) { // what a job needs is above it
		if len(levels) == 0 || slices.Contains(levels, j.level) || wanted[j.name] {
			wanted[j.name] = true
			for _, need := range j.needs {
				wanted[need] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(j job) bool { return !wanted[j.name] }), nil
}
