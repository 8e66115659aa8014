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
	slots int // of the machine's, which has one for each core; 0 runs in the time that others leave; see alone
	nice  int // nice(1)
	nodes int // lab nodes of 2 GiB that it has at most at one time
	argv  []string
}

// alone is for a job that takes every slot that there is.
const alone = math.MaxInt

// jobs are all of them. Those that may start are started in this order, the
// longest first, so that no long one is left for the end. A job with a lab takes a
// slot although it waits for timers half of the time. What measures runs alone.
var jobs = []job{
	{name: "build", level: "build", slots: 1, argv: words("make --no-print-directory -s test-build")},
	{name: "image", level: "lab", needs: words("build"), slots: 1, nodes: 1, argv: words("tools/test-lab image")},
	// A second where the cache has all of them, ten minutes and more where it has not.
	{name: "parts", level: "kubernetes", nice: 5, argv: words("tools/parts")},
	{name: "lint", level: "lint", nice: 5, argv: words("tools/lint")},

	{name: "kubernetes", level: "kubernetes", needs: words("image parts"), slots: 1, nodes: 2,
		argv: gotest("kubernetes", "tools/go test -tags kubernetes -count=1 -timeout 40m -v", "-tags kubernetes -count=1 -timeout 75m -v ./test/kubernetes")},
	{name: "lab-e2e", level: "lab", needs: words("image"), slots: 1, nodes: 2, argv: words("tools/test-lab e2e")},
	{name: "lab-node", level: "lab", needs: words("image"), slots: 1, nodes: 1, argv: words("tools/test-lab node")},
	{name: "lab-host", level: "lab", needs: words("image"), slots: 1, nodes: 2, argv: words("tools/test-lab host")},

	// The race detector makes test/failure some five times slower, so that a sample of
	// it runs here, and everything without the detector.
	{name: "unit", level: "unit", slots: 1, nice: 5, argv: words("tools/test-unit rest")},
	{name: "failure", level: "unit", slots: 1, nice: 5, argv: gotest("failure", "tools/go test", "-timeout 60m ./test/failure")},
	// The detector would be what takes the memory.
	{name: "memory", level: "unit", slots: 1, nice: 5, argv: gotest("memory", "tools/go test", "-run MemoryOfLargeLedgers ./journal")},
	{name: "fuzz", level: "unit", slots: 1, nice: 5, argv: words("env FUZZTIME=500x JOBS=1 tools/fuzz")},
	// These measure: nothing else runs meanwhile. Beside the Kubernetes level the agents of
	// TestBench woke up too late, and its result was void. The second needs an API server.
	{name: "lab-bench", level: "lab", needs: words("image"), slots: alone, nodes: 4, argv: words("tools/test-lab bench")},
	{name: "unit-bench", level: "unit", needs: words("parts lint"), slots: alone, argv: words("tools/test-unit bench")},
}

func words(s string) []string { return strings.Fields(s) }

// gotest is tools/gotest with its arguments: how a command that repeats a test
// begins, and what go test gets.
func gotest(as, repeat, args string) []string {
	return append([]string{"tools/run", "gotest", "-as", as, "-repeat", repeat, "--"}, words(args)...)
}

// choose returns the jobs of levels, and those that they need. Without levels it
// returns all.
func choose(all []job, levels []string) ([]job, error) {
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
