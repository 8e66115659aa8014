package conduct

import (
	"context"
	"slices"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/preset"
)

// Measurement is all that one invocation measures. [Crew.Plan] makes it of an order.
type Measurement struct {
	Exchange
	Limits   Limits
	Seed     uint64
	Progress *Progress

	plan  preset.Plan
	quick bool
}

// Prepare names the arms and sets their ceilings.
func (m *Measurement) Prepare() {
	Name(m.Arms)
	for i := range m.Arms {
		a := &m.Arms[i]
		Ceiling(a, func(e bench.End) bench.Machine { return station(m.Stations, e).Machine })
	}
}

// Run makes the runs. The result has in any case those that were made, and says when
// it is not whole. All its times are of this host's clock as it was at the start, so that
// a clock that is set meanwhile puts nothing out of order.
func (m *Measurement) Run(ctx context.Context) bench.Result {
	r := bench.Result{Schema: bench.Schema, Started: time.Now(), Seed: m.Seed, Machines: Machines(m.Stations, m.Arms), Arms: m.Arms}
	r.Notes = slices.Clone(m.plan.Notes)
	if !m.Limits.Rough {
		r.Notes = append(r.Notes, m.bounds(ctx)...)
	}
	rounds := Rounds{Arms: m.Arms, Limits: m.Limits, Seed: m.Seed, Once: m.Once, Progress: m.Progress, Now: time.Now}
	r.Runs, r.Unfinished = rounds.Run(ctx)
	r.Ended = r.Started.Add(time.Since(r.Started))
	r.Notes = append(append(r.Notes, pulledArms(r)...), set(r)...)
	r.Preset, r.Printed = m.plan.Presets(), m.plan.Printed(r.Arms)
	return r
}
