package conduct

import (
	"context"
	"maps"

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

// useHost replaces the processor time that a guest counted by that of its host, which includes it,
// and keeps the guest's in Guest. void is the reason if the host's window was not counted.
func useHost(e *bench.Evidence, host bench.Run) (void string) {
	if host.Void != "" {
		return host.Void
	}
	guest := e.CPU
	e.Guest, e.CPU = &guest, host.From.CPU
	e.CPU.Tasks = maps.Clone(host.From.CPU.Tasks)
	delete(e.CPU.Tasks, engine.Own) // the host's agent, which only samples
	return ""
}

// withTasks adds the tasks that a node saw. The end's own tasks stay: the node takes its own
// agent for the engine.
func withTasks(use *bench.CPUUse, node bench.CPUUse) {
	if len(node.Tasks) == 0 {
		return
	}
	own := use.Tasks
	use.Others = node.Others // the end sees a part of them at most
	use.Tasks = maps.Clone(node.Tasks)
	delete(use.Tasks, engine.Own)
	maps.Copy(use.Tasks, own)
}
