package conduct

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/place"
	"github.com/culvert-net/culvert/bench/preset"
)

// Plan puts an agent at each end of the order, and plans the measurement between them. The crew has
// the agents that it opened before an error, to be closed.
func (c *Session) Plan(ctx context.Context, o Order, p place.Program) (*Measurement, error) {
	at, err := c.openEnds(ctx, o, p)
	if err != nil {
		return nil, err
	}
	m := &Measurement{Exchange: Exchange{Stations: c.Stations, Cable: o.findCable()}, Limits: o.Limits, Seed: o.Seed, quick: o.Quick}
	if len(o.AB) > 0 {
		err = c.planSides(ctx, m, o, at, p)
	} else {
		err = c.planOnce(ctx, m, o, at)
	}
	if err != nil {
		return nil, err
	}
	if err := m.settlePlan(o); err != nil {
		return nil, err
	}
	m.Prepare()
	return m, nil
}

// planOnce plans for the paths that the ends have.
func (c *Session) planOnce(ctx context.Context, m *Measurement, o Order, at opened) (err error) {
	if err := DescribeStations(ctx, c.Stations); err != nil {
		return err
	}
	m.plan, err = c.planHere(ctx, m, o, at)
	m.Arms = m.plan.Arms
	return err
}

// planHere plans the presets for the paths that the stations found last.
func (c *Session) planHere(ctx context.Context, m *Measurement, o Order, at opened) (preset.Plan, error) {
	paths, unmanaged, err := o.choosePaths(c.Stations, at)
	if err != nil {
		return preset.Plan{}, err
	}
	plan, err := o.planPresets(preset.Here{
		Paths: paths,
		Cable: m.Cable.Move != nil, ByHand: m.Cable.ByHand, Service: o.Service != "",
		Lacks:   func(engine string) string { return WhyNoEngine(at.withEngines(), engine) },
		Overlay: m.overlayDriver,
		Rates:   func(p bench.Path) (lowest, highest int, err error) { return c.Rates(ctx, p) },
	})
	apart := o.noteNetworks(paths)
	if err != nil && apart != "" {
		err = fmt.Errorf("%w; %s", err, apart)
	}
	if err != nil {
		return plan, err
	}
	for _, note := range []string{unmanaged, apart} {
		if note != "" {
			plan.Notes = append(plan.Notes, note)
		}
	}
	plan.Notes = append(plan.Notes, notePorts(c.Stations)...)
	return plan, nil
}

// notePorts names the machines whose NICs are ports of OpenStack. Traffic without encapsulation from
// addresses that the ports do not know, such as those of pods, gets no answer there.
func notePorts(stations []*Station) []string {
	var names []string
	for _, s := range stations {
		if s.Machine.OpenStack && !slices.Contains(names, s.Machine.Name) {
			names = append(names, s.Machine.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return []string{strings.Join(names, ", ") + ": ports of OpenStack drop packets from addresses that they do not know. " +
		"Without encapsulation, allow the pods' subnet on each port: openstack port set --allowed-address ip-address=SUBNET PORT"}
}

// planPresets plans the order's presets for the paths and engines that are here.
func (o Order) planPresets(here preset.Here) (preset.Plan, error) {
	presets, err := o.findPresets()
	if err != nil {
		return preset.Plan{}, err
	}
	var plan preset.Plan
	if len(presets) > 0 {
		plan, err = preset.Together(presets, here, o.Quick)
	} else {
		plan, err = o.Question.Plan(here, o.Quick)
	}
	if err != nil {
		return plan, err
	}
	if o.Seconds > 0 {
		plan.Shorten(o.Seconds)
	}
	if o.Limits.Rough {
		plan.Roughen()
	}
	if o.Burst > 1 {
		if err := plan.Burst(o.Burst); err != nil {
			return plan, err
		}
	}
	return plan, nil
}

// settlePlan sets what the order left open. It refuses fewer rounds than could show a change of a
// side.
func (m *Measurement) settlePlan(o Order) error {
	least := 0
	if m.sides != nil {
		figures := bench.FamilySize(m.armsOfSide(0), o.Rules)
		least = bench.LeastRounds(figures)
		m.sides.needs = fmt.Sprintf("figures that are judged as one family: %d; fewer than %d rounds could not show a change of any (n pairs have a p of 2^(1-n) at least)", figures, least)
		if m.Limits.Repeats > 0 && m.Limits.Repeats < least {
			return fmt.Errorf("--repeats %d: %s: leave it out, or compare fewer arms (--path) or by fewer rules", m.Limits.Repeats, m.sides.needs)
		}
	}
	if m.Limits.Repeats == 0 {
		m.Limits.Repeats = max(m.plan.Repeats, least)
	}
	if m.Limits.MaxTime == 0 {
		m.Limits.MaxTime = max(10*time.Minute, 2*m.Takes())
	}
	for m.Seed == 0 {
		m.Seed = rand.Uint64() //nolint:gosec // it only orders runs, and is printed
	}
	return nil
}

// overhead is the time that a run takes beside its seconds, while two agents get ready and
// sample.
const overhead = 1500 * time.Millisecond

// Takes returns about how long the rounds take, with the warm-up round.
func (m *Measurement) Takes() time.Duration {
	var round time.Duration
	for _, a := range m.Arms {
		round += time.Duration((a.Workload.Seconds+a.Workload.Warmup)*float64(time.Second)) + overhead
	}
	rounds := m.Limits.Repeats
	if !m.Limits.Rough {
		rounds++
		round += restTime
	}
	if m.sides != nil {
		round += m.sides.took[0] + m.sides.took[1]
	}
	return round * time.Duration(rounds)
}

// nameAddress returns an end's address, or, of a VF that DPDK drives, the machine on which it is.
func nameAddress(e bench.End) string {
	if !e.Address.IsValid() {
		return "on " + e.Machine
	}
	return e.Address.String()
}

// Announce says what will be measured, and what will not.
func (m *Measurement) Announce() {
	p, took, hint := m.Progress, m.Takes(), ""
	if !m.quick && took > 5*time.Minute {
		hint = "; --quick is shorter"
	}
	p.Say("%d arms, %d runs of each that count: about %s%s", len(m.Arms), m.Limits.Repeats, took.Round(time.Second), hint)
	if m.sides != nil {
		p.Say("%s", m.sides.needs)
		for _, s := range m.sides.described {
			p.Say("  side %s, when it was set up first: %s", s.Name, cmp.Or(s.Says, "its command printed nothing"))
		}
	}
	for _, a := range m.Arms {
		for _, path := range a.Paths() {
			through := ""
			if path.Via != (bench.Relay{}) {
				through = fmt.Sprintf(", through %s, which %s", path.Via.Name, path.Via.How)
			}
			if path.Service.IsValid() {
				through = fmt.Sprintf(", by %s, replaced %s", path.Service, path.Replaced)
			}
			p.Say("  %s: %s, %s %s to %s %s%s", a.Name, Title(path), path.From.Name, nameAddress(path.From), path.To.Name, nameAddress(path.To), through)
			if s := path.Mismatch(); s != "" {
				p.Say("  take care: %s", s)
			}
		}
	}
	for _, n := range m.plan.Notes {
		p.Say("note: %s", n)
	}
}
