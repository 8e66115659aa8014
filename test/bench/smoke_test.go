//go:build lab

package bench

import (
	"errors"
	"flag"
	"os"
	"os/exec"
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

// TestAgainst measures this commit against itself, in turns. The figures say nothing.
func TestAgainst(t *testing.T) {
	soak.Only(t, "it builds a second culvertd and measures both")
	if programs != "" {
		t.Skip("in a node")
	}
	cmd := exec.CommandContext(t.Context(), "../../tools/bench", "--against", "HEAD", "bond")
	cmd.Env = append(os.Environ(), "ROUNDS=4")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "turn 2 of 2") || !strings.Contains(string(out), "\nverdict: ") || strings.Contains(string(out), "missing\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A comparison that cannot be made is refused before anything is built.
func TestAgainstIsRefused(t *testing.T) {
	if programs != "" {
		t.Skip("in a node")
	}
	for args, want := range map[string]string{
		"--against":               "git knows no such commit",
		"--against nonsense fast": "--against nonsense: git knows no such commit",
		"--against HEAD memory":   "--against does not measure memory: name fast, whole, create or bond",
	} {
		out, err := exec.CommandContext(t.Context(), "../../tools/bench", strings.Fields(args)...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), want) {
			t.Errorf("tools/bench %s: %v\n%s", args, err, out)
		}
	}
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
