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
	sides *sides   // of an A/B measurement
	notes []string // of bounds and sides
}

// Prepare names the arms and sets their ceilings.
func (m *Measurement) Prepare() {
	Name(m.Arms)
	for i := range m.Arms {
		Ceiling(&m.Arms[i], m.machineOf)
	}
}

// machineOf returns an end's machine with the interfaces of all network namespaces that have an
// agent, the end's own first. An overlay's uplink is in the node's namespace.
func (m *Measurement) machineOf(e bench.End) bench.Machine {
	own := findStation(m.Stations, e)
	all := own.Machine
	all.Interfaces = slices.Clone(all.Interfaces)
	for _, s := range m.Stations {
		if s != own && !s.VM && s.Machine.Name == all.Name {
			all.Interfaces = append(all.Interfaces, s.Machine.Interfaces...)
		}
	}
	return all
}

// Run makes the runs. Also after an error the result has the runs that were made, and says that it
// is not whole. All its times count from this host's clock at the start, so that a clock that is
// set meanwhile does not change their order.
func (m *Measurement) Run(ctx context.Context) bench.Result {
	r := bench.Result{Schema: bench.Schema, Started: time.Now(), Seed: m.Seed, Machines: Machines(m.Stations, m.Arms), Arms: m.Arms}
	r.Notes = slices.Clone(m.plan.Notes)
	if m.sides == nil {
		m.boundArms(ctx, upTo(len(m.Arms)))
	}
	rounds := Rounds{Arms: m.Arms, Limits: m.Limits, Seed: m.Seed, Once: m.Once, Progress: m.Progress, Now: time.Now}
	if !m.Limits.Rough {
		rounds.Rest = m.Rest
	}
	if m.sides != nil {
		rounds.Blocks, rounds.SetUp = m.sides.arms[:], m.setUpSide
		r.Machines, r.Sides = m.sides.allMachines(), m.sides.described[:]
	}
	r.Runs, r.Unfinished = rounds.Run(ctx)
	r.Notes = append(r.Notes, m.notes...)
	r.Ended = r.Started.Add(time.Since(r.Started))
	r.Notes = append(append(r.Notes, pulledArms(r)...), noteRates(r)...)
	r.Preset, r.Printed = m.plan.Presets(), m.plan.Printed(r.Arms)
	return r
}

// boundArms finds the bounds of arms, unless the measurement is rough, and sets their ceilings as their
// machines are now.
func (m *Measurement) boundArms(ctx context.Context, arms []int) {
	if !m.Limits.Rough {
		for _, note := range m.findBounds(ctx, arms) {
			m.addNote(note)
		}
	}
	for _, i := range arms { // again, since the bounds have the VLANs
		Ceiling(&m.Arms[i], m.machineOf)
	}
}

func (m *Measurement) addNote(note string) {
	if !slices.Contains(m.notes, note) {
		m.notes = append(m.notes, note)
	}
}
