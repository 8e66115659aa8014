package conduct

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/bench"
)

// runLimited runs a transfer while the culvertd of the sender's machine lends the sending VF the
// rate that the workload wants. Before it returns, the VF has its own rate again. If not, the
// error says so, and that culvertd goes on trying.
func (x *Exchange) runLimited(ctx context.Context, a *bench.Arm) (bench.Run, error) {
	if a.Workload.RateLimit == 0 {
		return x.runTransfer(ctx, *a)
	}
	s := x.sideOf(senderOf(a, a.Path))
	long := int(a.Workload.Seconds+a.Workload.Warmup) + int(slack.Seconds())
	culvertd := cmp.Or(s.lender, s.nearPF()).Agent
	mbps, err := culvertd.Lend(ctx, s.pciAddress(s.end), s.ownerOfVF(), uint32(a.Workload.RateLimit), long)
	if err != nil {
		return bench.Run{}, s.wrapError(err)
	}
	a.RateMbps = int(mbps)
	run, err := x.runTransfer(ctx, *a)
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	return run, errors.Join(err, s.wrapError(culvertd.GiveBack(back)))
}

// pciAddress returns the PCI address of an end's interface on its machine, or "" if it has none.
func (s *Station) pciAddress(e bench.End) string {
	if s.isDevice() {
		return s.PCI
	}
	if pci, passed := s.passed[e.Interface]; passed {
		return pci
	}
	i := slices.IndexFunc(s.Machine.Interfaces, func(i bench.Interface) bool { return i.Name == e.Interface })
	if i < 0 {
		return ""
	}
	return s.Machine.Interfaces[i].PCI
}

// Rates returns the lowest and the highest max_tx_rate, in Mb/s, that can be lent to the VF where
// a path begins.
func (c *Session) Rates(ctx context.Context, p bench.Path) (lowest, highest int, err error) {
	s := findStation(c.Stations, p.From)
	lender, err := c.lenderOf(ctx, s)
	if err != nil {
		return 0, 0, err
	}
	lowest, highest, err = lender.Agent.Rates(ctx, s.pciAddress(p.From), s.ownerOfVF())
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", s.Name, err)
	}
	return lowest, highest, nil
}

// noteRates notes the throughput of arms with a rate limit.
func noteRates(r bench.Result) (notes []string) {
	for i, a := range r.Arms {
		values := r.Values(i, a.Main())
		if a.Workload.RateLimit == 0 || len(values) == 0 {
			continue
		}
		got, fit := 1000*bench.Median(values), 1000*a.RateCeiling()
		said := fmt.Sprintf("%s: max_tx_rate %d Mb/s (%d by the PF's word), measured %s Mb/s of payload", a.Name, a.Workload.RateLimit, a.RateMbps, bench.Number(got))
		if fit > 0 {
			said += fmt.Sprintf(", %.0f %% of the %s Mb/s that fit into it", 100*got/fit, bench.Number(fit))
		}
		if a.IsRateExceeded(got / 1000) {
			said += ": the NIC does not enforce it"
		}
		notes = append(notes, said)
	}
	return notes
}
