package conduct

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/preset"
)

// Measurement is all that one invocation measures. [Session.Plan] makes it of an order.
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
	NameArms(m.Arms)
	m.setCeilings(upTo(len(m.Arms)))
}

// setCeilings sets the ceilings of arms, and the rates that queueing disciplines pass.
func (m *Measurement) setCeilings(arms []int) {
	for _, i := range arms {
		a := &m.Arms[i]
		below := m.onNodes(*a)
		Ceiling(&below, m.machineOf)
		a.CeilingGbps, a.CeilingPPS = below.CeilingGbps, below.CeilingPPS
		bounds := a.EachBounds()
		limited := false
		for j, p := range a.Paths() {
			bounds[j].QdiscMbps = m.qdiscLimit(a, senderOf(a, p), senderOf(a, below.Paths()[j]))
			limited = limited || j > 0 && bounds[j].QdiscMbps > 0
		}
		if a.Bounds = bounds[0]; limited || a.AlsoBounds != nil {
			a.AlsoBounds = bounds[1:]
		}
	}
}

// onNodes returns the arm with its pods on an overlay replaced by the interfaces of their nodes
// that carry the overlay's frames: those by which the node itself sends to the other end. The
// MTU stays the pod's, which shows what the overlay adds.
func (m *Measurement) onNodes(a bench.Arm) bench.Arm {
	a.Also = slices.Clone(a.Also)
	for i := range 1 + len(a.Also) {
		p := &a.Path
		if i > 0 {
			p = &a.Also[i-1]
		}
		from := m.onNode(p.From, p.To)
		p.From, p.To = from, m.onNode(p.To, p.From)
	}
	return a
}

func (m *Measurement) onNode(e, other bench.End) bench.End {
	pod := findStation(m.Stations, e)
	if pod == nil || !pod.Pod || e.PF != "" || e.Uplink != "" || e.Machine == other.Machine {
		return e
	}
	if own, _ := findInterface(pod.Machine, e.Interface); own.SpeedMbps > 0 {
		return e
	}
	for _, s := range m.Stations {
		if s.Pod || s.VM || s.Machine.Name != e.Machine {
			continue
		}
		source := s.Routes[other.Address].Source
		if i := slices.IndexFunc(s.Ends, func(o bench.End) bool { return source.IsValid() && o.Address == source }); i >= 0 {
			node := s.nameEnd(s.Ends[i])
			node.MTU, node.Address = e.MTU, e.Address
			return node
		}
	}
	return e
}

// overlayDriver returns the driver of the interface by which an overlay's packets leave a path's first
// machine: the tunnel's, if the overlay has one. It returns "" if that is not known.
func (m *Measurement) overlayDriver(p bench.Path) string {
	if slices.Contains(tunnels, p.From.Driver) {
		return p.From.Driver
	}
	if node := m.onNode(p.From, p.To); node.Name != p.From.Name {
		return node.Driver
	}
	return ""
}

// qdiscLimit returns the rate, in Mb/s, that the queueing disciplines of a sending end pass: those
// of its interface, of the one interface that carries its frames, and of its node's. 0: all.
func (m *Measurement) qdiscLimit(a *bench.Arm, ends ...bench.End) (mbps float64) {
	flows := float64(max(1, a.Workload.Streams, a.Workload.Flows, a.Workload.Sources, a.Workload.MACs))
	for _, e := range ends {
		s := findStation(m.Stations, e)
		if s == nil {
			continue
		}
		names := []string{e.Interface}
		if e.Uplink != "" && !strings.Contains(e.Uplink, "+") {
			names = append(names, e.Uplink)
		}
		for _, name := range names {
			i, _ := findInterface(s.Machine, name)
			for _, limit := range []float64{i.QdiscMbps, i.FlowMbps * flows} {
				if limit > 0 && (mbps == 0 || limit < mbps) {
					mbps = limit
				}
			}
		}
	}
	return mbps
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
	rounds := Rounds{Arms: m.Arms, Limits: m.Limits, Seed: m.Seed, Once: m.RunArm, Progress: m.Progress, Now: time.Now}
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

// boundArms finds the bounds of arms, except those that take long where the measurement is rough, and
// sets their ceilings as their machines are now.
func (m *Measurement) boundArms(ctx context.Context, arms []int) {
	notes := m.findThroughputs(ctx, arms)
	if !m.Limits.Rough {
		notes = append(notes, m.findBounds(ctx, arms)...)
	}
	for _, note := range notes {
		m.addNote(note)
	}
	m.setCeilings(arms) // again, since the bounds have the VLANs
}

func (m *Measurement) addNote(note string) {
	if !slices.Contains(m.notes, note) {
		m.notes = append(m.notes, note)
	}
}
