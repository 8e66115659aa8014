package bench

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// turns are the times of several ways to do the same, one of each in a turn.
type turns struct {
	attach, floorAttach, plainAttach, chainAttach []time.Duration
	detach, floorDetach, plainDetach, chainDetach []time.Duration

	attachCPU, detachCPU []time.Duration // culvertd's
}

// turnsFor returns the turns that the benchmark shares with the others of its
// kind: the first of them measures all, the others report their part.
func (n *node) turnsFor(b *testing.B, take func(rounds int) (*turns, error)) *turns {
	b.Helper()
	size := fmt.Sprint(b.N)
	call := b.Name() + " " + size
	i := n.calls[call]
	n.calls[call]++
	for len(n.turns[size]) <= i {
		if n.broken != nil {
			b.Fatal("no turns: see the first failure")
		}
		t, err := take(b.N)
		if err != nil {
			n.broken = err
			b.Fatal(err)
		}
		n.turns[size] = append(n.turns[size], t)
	}
	return n.turns[size][i]
}

func (n *node) takeTurns(rounds int) (*turns, error) {
	t := &turns{}
	for range rounds {
		add, attachCPU := n.counted(n.add)
		del, detachCPU := n.counted(n.del)
		if err := n.pair(&t.attach, &t.detach, add, del); err != nil {
			return nil, fmt.Errorf("culvert: %w\n%s", err, n.log())
		}
		t.attachCPU, t.detachCPU = append(t.attachCPU, *attachCPU), append(t.detachCPU, *detachCPU)
		if err := n.freeze(func() error { return n.pair(&t.floorAttach, &t.floorDetach, n.floorAdd, n.floorDel) }); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// counted returns fn, and the processor time that culvertd used in the last
// call of it.
func (n *node) counted(fn func(pod int) error) (func(pod int) error, *time.Duration) {
	var used time.Duration
	return func(pod int) error {
		before, err := n.processorTime()
		if err != nil {
			return err
		}
		if err := fn(pod); err != nil {
			return err
		}
		used, err = n.processorTime()
		used -= before
		return err
	}, &used
}

// pair attaches and detaches once.
func (n *node) pair(attach, detach *[]time.Duration, add, del func(int) error) error {
	a, err := n.timed(func() error { return add(0) })
	if err != nil {
		return err
	}
	d, err := n.timed(func() error { return del(0) })
	*attach, *detach = append(*attach, a), append(*detach, d)
	return err
}

func median[T ~int64 | ~float64](all []T) T {
	if len(all) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(all))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// ratio is the median of the turns' ratios of a to b.
func ratio(a, b []time.Duration) float64 {
	all := make([]float64, 0, len(a))
	for i := range min(len(a), len(b)) {
		all = append(all, float64(a[i])/float64(b[i]))
	}
	return median(all)
}

// report makes the median the benchmark's time.
func report(b *testing.B, all []time.Duration) {
	b.Helper()
	if len(all) == 0 {
		b.Skip("no such programs here")
	}
	b.ReportMetric(float64(median(all)), "ns/op")
}

func BenchmarkAttach(b *testing.B) {
	t := host.turnsFor(b, host.takeTurns)
	report(b, t.attach)
	b.ReportMetric(ratio(t.attach, t.floorAttach), "x-floor")
	b.ReportMetric(float64(median(t.attachCPU))/1e6, "culvertd-cpu-ms")
}

func BenchmarkAttachFloor(b *testing.B) { report(b, host.turnsFor(b, host.takeTurns).floorAttach) }

func BenchmarkDetach(b *testing.B) {
	t := host.turnsFor(b, host.takeTurns)
	report(b, t.detach)
	b.ReportMetric(ratio(t.detach, t.floorDetach), "x-floor")
	b.ReportMetric(float64(median(t.detachCPU))/1e6, "culvertd-cpu-ms")
}

func BenchmarkDetachFloor(b *testing.B) { report(b, host.turnsFor(b, host.takeTurns).floorDetach) }
