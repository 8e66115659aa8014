//go:build lab

package bench

import (
	"os"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/test/promises"
)

// make bench runs the benchmarks, here each once and without those that take long.
func TestSmoke(t *testing.T) {
	if programs != "" {
		t.Skip("in a node")
	}
	cmd := promises.Make(t.Context(), "../..", "bench", "BENCH=smoke")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{
		"Attach ", "AttachFloor ", "Detach ", "DetachFloor ", "AttachParallel ", "ShimExec ", "Memory ",
	} {
		if !strings.Contains(string(out), "\nBenchmark"+name) {
			t.Errorf("Benchmark%s did not run:\n%s", name, out)
		}
	}
}
