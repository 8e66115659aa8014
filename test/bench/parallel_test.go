package bench

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// together runs fn for every pod at once.
func together(fn func(pod int) error) error {
	var g errgroup.Group
	for i := range pods {
		g.Go(func() error { return fn(i) })
	}
	return g.Wait()
}

// BenchmarkAttachParallel attaches 8 pods at once, each with its own exec of
// the shim; the floor is the bare program, 8 at once.
func BenchmarkAttachParallel(b *testing.B) {
	var culvert, floor []time.Duration
	for range b.N {
		c, err := host.timed(func() error { return together(host.add) })
		if err = errors.Join(err, together(host.del)); err != nil {
			b.Fatalf("%v\n%s", err, host.log())
		}
		var f time.Duration
		err = host.freeze(func() (err error) {
			f, err = host.timed(func() error { return together(host.floorAdd) })
			return errors.Join(err, together(host.floorDel))
		})
		if err != nil {
			b.Fatal(err)
		}
		culvert, floor = append(culvert, c), append(floor, f)
	}
	report(b, culvert)
	b.ReportMetric(ratio(culvert, floor), "x-floor")
}
