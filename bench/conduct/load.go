package conduct

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/engine"
)

// The throughput of which a load is a part is the median of throughputTries runs.
const (
	throughputTries   = 3
	throughputSeconds = 1
	throughputWarmup  = 1
)

// errNoThroughput is the error of a run whose load has no size.
var errNoThroughput = errors.New("the load is a part of the path's throughput, and that is not known")

// findThroughputs measures how much one TCP stream carries over the idle path of each arm that has a
// load. The notes name the paths where that could not be measured: the runs of their arms are void.
func (m *Measurement) findThroughputs(ctx context.Context, arms []int) (notes []string) {
	type way struct {
		path bench.Path
		back bool
	}
	known := map[way]float64{}
	for _, i := range arms {
		a := &m.Arms[i]
		if a.Workload.Load == 0 {
			continue
		}
		at := way{a.Path, a.Workload.Reverse}
		if _, is := known[at]; !is {
			m.Progress.Step("%s: what TCP carries over the idle path", a.Name)
			gbps, err := m.throughputOf(ctx, *a)
			if known[at] = gbps; err != nil && ctx.Err() == nil {
				notes = append(notes, fmt.Sprintf("%s: how much the path carries is not known, so it has no load: %v", a.Name, err))
			}
		}
		a.ThroughputGbps = known[at]
	}
	return notes
}

// throughputOf returns the throughput of an arm's first path in Gb/s.
func (x *Exchange) throughputOf(ctx context.Context, a bench.Arm) (float64, error) {
	a.Workload = bench.Workload{
		Kind: bench.Stream, Engine: engine.Own, Streams: 1, Reverse: a.Workload.Reverse,
		Seconds: throughputSeconds, Warmup: throughputWarmup,
	}
	var all []float64
	var failed error
	for range throughputTries {
		bounded, cancel := context.WithTimeout(ctx, slack)
		f := x.makeFlow(a, a.Path)
		run, err := carryBetween(bounded, f.sender, f.receiver, f.task)
		cancel()
		if err == nil && run.Void != "" {
			err = errors.New(run.Void)
		}
		if failed = err; err == nil {
			all = append(all, run.Gbps)
		}
	}
	if len(all) == 0 {
		return 0, failed
	}
	return bench.Median(all), nil
}

// loadOf returns the workload of the stream that goes beside an arm's questions.
func loadOf(a bench.Arm) bench.Workload {
	w := a.Workload
	return bench.Workload{
		Kind: bench.Stream, Engine: engine.Own, Streams: 1, Seconds: w.Seconds, Warmup: w.Warmup,
		Rate: w.Load * a.ThroughputGbps * 1e9,
	}
}

// addLoad returns the flow of an arm's load beside the flow of its questions, or nil if the arm has
// no load. The two begin together.
func (x *Exchange) addLoad(a bench.Arm, questions *flow) (*flow, error) {
	if a.Workload.Load == 0 {
		return nil, nil
	}
	if a.ThroughputGbps == 0 {
		return nil, errNoThroughput
	}
	f := x.makeFlow(a, a.Path)
	f.task.Workload = loadOf(a)
	f.beside, questions.beside = true, true
	return f, nil
}

// carryBeside is carryFlows with a load beside the first flow, if there is one. Its figures are in the
// run of the first flow.
func carryBeside(ctx context.Context, flows []*flow, load *flow, during ...func(context.Context) error) ([]bench.Run, error) {
	if load == nil {
		return carryFlows(ctx, flows, during...)
	}
	each, err := carryFlows(ctx, append(slices.Clone(flows), load), during...)
	if err != nil {
		return nil, err
	}
	load.addLoadFigures(&each[0], each[len(flows)])
	return each[:len(flows)], nil
}

// addLoadFigures adds the figures of a load to the run of the questions.
func (f *flow) addLoadFigures(questions *bench.Run, load bench.Run) {
	questions.Load = &bench.Load{Gbps: load.Gbps, Retransmits: load.Retransmits, Totals: load.Totals}
	if why := f.voidReason(load); why != "" && questions.Void == "" {
		questions.Void = "the load: " + why
	}
}

// claimWithLoad is claimOf with the traffic of the load beside a run's questions.
func claimWithLoad(w bench.Workload, run bench.Run, p bench.Path) claims {
	c := claimOf(w, run, p)
	if run.Load == nil {
		return c
	}
	return c.addClaims(claimOf(bench.Workload{Kind: bench.Stream}, bench.Run{Totals: run.Load.Totals}, p))
}
