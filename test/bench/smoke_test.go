//go:build lab

package bench

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/test/promises"
	"github.com/culvert-net/culvert/test/soak"
)

var smokePods = flag.Bool("pods", false, "run the comparison with the usual chain, in a cluster")

// runPart runs a part of `make bench` and returns what it printed.
func runPart(t *testing.T, part string) string {
	t.Helper()
	if programs != "" {
		t.Skip("in a node")
	}
	cmd := promises.Make(t.Context(), "../..", "bench", "BENCH="+part)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "\nverdict: ") {
		t.Errorf("there is no verdict:\n%s", out)
	}
	return string(out)
}

// measured fails the test when a benchmark did not run.
func measured(t *testing.T, out string, names ...string) {
	t.Helper()
	for _, name := range names {
		if !strings.Contains(out, "\nBenchmark"+name+" ") {
			t.Errorf("Benchmark%s did not run:\n%s", name, out)
		}
	}
}

// TestSmoke runs each benchmark once, except those that take long.
func TestSmoke(t *testing.T) {
	measured(t, runPart(t, "smoke"), "Attach", "AttachFloor", "Detach", "DetachFloor", "AttachBond", "AttachParallel", "ShimExec", "Memory")
}

// TestSmokeClusterIP does the same with the benchmark of ClusterIPs.
func TestSmokeClusterIP(t *testing.T) {
	soak.Only(t, "a measurement, which is void beside other programs")
	measured(t, runPart(t, "smoke-clusterip"), "ClusterIP/eBPF/throughput", "ClusterIP/eBPF/requests", "ClusterIP/nftables/throughput", "ClusterIP/nftables/requests")
}

// TestSmokePods runs the comparison with the usual chain in a cluster. The benchmark itself
// fails if a way does not give the pod both interfaces. The test also checks that the chain
// asks the API server.
//
// It boots a cluster for one figure, so make soak runs it and make test does not.
func TestSmokePods(t *testing.T) {
	if !*smokePods {
		t.Skip("make soak runs it: it boots a cluster (-args -pods)")
	}
	out := runPart(t, "smoke-pods")
	measured(t, out, "PodAttach", "PodAttachChain", "PodAttachDefault", "PodAttachFloor",
		"PodDetach", "PodDetachChain", "PodDetachDefault", "PodDetachFloor", "PodRequests/kube-system:multus")
	if strings.Contains(out, "multus 1 0 api-requests") {
		t.Errorf("the chain asked no API server:\n%s", out)
	}
}
