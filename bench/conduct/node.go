package conduct

import (
	"context"
	"maps"
	"slices"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/agent"
	"github.com/culvert-net/culvert/bench/engine"
)

// nodeOf returns the station that sees the processes which a station does not: for a pod, the pod
// in its node's own namespaces; for a virtual machine, the station on its host. A place that only
// enters a network namespace needs none.
func (x *Exchange) nodeOf(of *Station) *Station {
	if of.Host != nil {
		return of.Host
	}
	if !of.Cluster || !of.Pod {
		return nil
	}
	for _, s := range x.Stations {
		if s.Cluster && !s.Pod && s.Machine.Name == of.Machine.Name {
			return s
		}
	}
	return nil
}

// watchedBy makes another station, such as the side's node, sample the window of a part. If the
// part ends before it has a window, the part itself reports the error.
func (s *side) watchedBy(ctx context.Context, other *Station, task agent.Task, run *bench.Run) error {
	w, err := s.part.Window(ctx)
	if err != nil {
		return nil //nolint:nilerr // the side's own finish says it
	}
	if s.kernelName() == other.kernelName() {
		w.In = 0 // it has the same clock
	}
	watcher := &side{Station: other}
	if watcher.part, err = other.Agent.Watch(ctx, task, w); err != nil {
		return watcher.wrapError(err)
	}
	return watcher.finishPart(ctx, run)
}

// guestsOn returns the virtual machines at the ends of an arm that run on a station's machine. The
// kernel of a guest sees none.
func (x *Exchange) guestsOn(a bench.Arm, at *Station) (names []string) {
	for _, p := range a.Paths() {
		for _, e := range []bench.End{p.From, p.To} {
			s := findStation(x.Stations, e)
			if s != nil && s.VM && !at.VM && s.Machine.Name == at.Machine.Name && !slices.Contains(names, s.Name) {
				names = append(names, s.Name)
			}
		}
	}
	return names
}

// useHost replaces the processor time that a guest counted by that of its host, which includes it,
// and keeps the guest's in Guest. void is the reason if the host's window was not counted.
func useHost(e *bench.Evidence, host bench.Run) (void string) {
	if host.Void != "" {
		return host.Void
	}
	guest := e.CPU
	e.Guest, e.CPU = &guest, host.From.CPU
	e.CPU.Tasks = withoutEngine(host.From.CPU)
	e.CPU.Engine = nil
	return ""
}

// useNode replaces the tasks that an end saw by those that its node saw. It reports whether a node
// watched.
func useNode(use *bench.CPUUse, node bench.CPUUse) bool {
	if !(node.Seconds > 0) {
		return false
	}
	use.Tasks, use.Others = withoutEngine(node), maps.Clone(node.Others)
	return true
}

// withoutEngine returns the tasks that took part without an agent and the processes that it started.
func withoutEngine(use bench.CPUUse) map[string]float64 {
	tasks := maps.Clone(use.Tasks)
	for program := range use.Engine {
		delete(tasks, engine.TaskOf(program))
	}
	return tasks
}

// engines has the seconds of each end's engine by the end's station.
type engines map[*Station]map[string]float64

// creditTo makes the engines of all ends on the viewer's machine take part in what a machine did.
// The viewer saw them among the other tasks, but for its own.
func (all engines) creditTo(use *bench.CPUUse, viewer *Station) {
	for s, own := range all {
		if s.VM || s.kernelName() != viewer.kernelName() {
			continue
		}
		for program, seconds := range own {
			if use.Tasks == nil {
				use.Tasks = map[string]float64{}
			}
			use.Tasks[engine.TaskOf(program)] += seconds
			if s != viewer {
				takeFrom(use.Others, program, seconds)
			}
		}
	}
}

// takeFrom subtracts a program's seconds. The windows of two ends are not the same, so that a small
// rest is none.
func takeFrom(others map[string]float64, program string, seconds float64) {
	const rest = 0.05
	left, seen := others[program]
	if !seen {
		return
	}
	if left -= seconds; left > rest*seconds {
		others[program] = left
	} else {
		delete(others, program)
	}
}
