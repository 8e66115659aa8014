// Package bench measures Culvert against its budgets (docs/design/0005): real culvertd, the
// real shim exec'd as a runtime does, a real VF and a netns, in a lab node. Two ways that are
// compared are measured in turns, in one run, so that the noise of an emulated machine falls on
// both. A ratio is the median of the ratios of all turns.
//
// tools/bench builds the programs, runs this in a fast node (no udev) and in a
// whole one, and prints which budgets are met.
package bench

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
)

// programs is the folder with culvertd, culvert-cni, floor and fakenode.
var programs = os.Getenv("CULVERT_BENCH")

// cluster is the folder with NAME.kubeconfig of the accounts culvertd and multus and POD.uid of
// the pods of testdata/pods.yaml, on a node of a cluster that tools/bench has prepared for the
// comparison with the usual chain. It is empty elsewhere.
var cluster = os.Getenv("CULVERT_BENCH_CLUSTER")

// smoke says that the benchmarks only have to run, and no figure is kept.
var smoke = os.Getenv("CULVERT_BENCH_SMOKE") != ""

// host is the node that this runs in; nil outside of one.
var host *node

func TestMain(m *testing.M) {
	flag.Parse()
	if programs == "" { // not in a node: only the tests that boot one
		os.Exit(m.Run())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	n, err := start(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: start:", err)
		return 1
	}
	defer n.stop()
	host = n
	return m.Run()
}
