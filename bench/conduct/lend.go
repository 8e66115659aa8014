package conduct

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/bench"
)

// limited is transfer with the rate that the workload wants lent to the VF that sends, by the
// culvertd of its machine. The VF has its own again before it returns, or the
// error says so; that culvertd goes on trying.
func (x *Exchange) limited(ctx context.Context, a *bench.Arm) (bench.Run, error) {
	if a.Workload.RateLimit == 0 {
		return x.transfer(ctx, *a)
	}
	s := x.side(sends(a, a.Path))
	long := int(a.Workload.Seconds+a.Workload.Warmup) + int(slack.Seconds())
	mbps, err := s.near().Agent.Lend(ctx, s.pci(s.end), uint32(a.Workload.RateLimit), long)
	if err != nil {
		return bench.Run{}, s.wrap(err)
	}
	a.RateMbps = int(mbps)
	run, err := x.transfer(ctx, *a)
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	return run, errors.Join(err, s.wrap(s.near().Agent.GiveBack(back)))
}

// pci is the address of an end's interface on its machine; empty where it has none.
func (s *Station) pci(e bench.End) string {
	if pci, passed := s.passed[e.Interface]; passed {
		return pci
	}
	i := slices.IndexFunc(s.Machine.Interfaces, func(i bench.Interface) bool { return i.Name == e.Interface })
	if i < 0 {
		return ""
	}
	return s.Machine.Interfaces[i].PCI
}

// Rates are the lowest and the highest max_tx_rate that the VF which a path begins at can be
// lent, in Mb/s.
func Rates(ctx context.Context, stations []*Station, p bench.Path) (lowest, highest int, err error) {
	s := station(stations, p.From)
	lowest, highest, err = s.near().Agent.Rates(ctx, s.pci(p.From))
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", s.Name, err)
	}
	return lowest, highest, nil
}

// set tells what arms with a rate limit made of it.
func set(r bench.Result) (notes []string) {
	for i, a := range r.Arms {
		values := r.Values(i, a.Main())
		if a.Workload.RateLimit == 0 || len(values) == 0 {
			continue
		}
		got := 1000 * bench.Median(values)
		notes = append(notes, fmt.Sprintf("%s: max_tx_rate %d Mb/s (%d by the PF's word), measured %s Mb/s of payload, %.0f %%",
			a.Name, a.Workload.RateLimit, a.RateMbps, bench.Number(got), 100*got/float64(max(1, a.RateMbps))))
	}
	return notes
}
