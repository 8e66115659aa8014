package bench

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/culvert-net/culvert/bench/floor"
)

// BenchmarkShimExec measures the start of the shim, which answers VERSION by
// itself. x-empty compares it with a Go program that does nothing.
func BenchmarkShimExec(b *testing.B) {
	var shim, empty []time.Duration
	for range b.N {
		s, err := host.timed(func() error {
			return host.run(invocation{program: "culvert-cni", command: "VERSION", config: culvertConfig})
		})
		if err != nil {
			b.Fatal(err)
		}
		e, err := host.timed(func() error { return host.floor(floor.Nothing{}) })
		if err != nil {
			b.Fatal(err)
		}
		shim, empty = append(shim, s), append(empty, e)
	}
	report(b, shim)
	b.ReportMetric(ratio(shim, empty), "x-empty")
	info, err := os.Stat(filepath.Join(programs, "culvert-cni"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(info.Size())/1e6, "MB")
}
