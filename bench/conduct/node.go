package conduct

import (
	"context"
	"maps"

	"github.com/culvert-net/culvert/bench"
	"github.com/culvert-net/culvert/bench/agent"
	"github.com/culvert-net/culvert/bench/engine"
)

// node is the station that sees the processes of a pod's node, which the pod does not:
// the pod in the node's own namespaces; of a virtual machine that on its host. Places that
// enter a network namespace alone need none.
func (x *Exchange) node(of *Station) *Station {
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

// watchedBy has another station, such as the side's node, sample the window of a part. That a part ends
// before it has a window is the part's to tell.
func (s *side) watchedBy(ctx context.Context, other *Station, task agent.Task, run *bench.Run) error {
	w, err := s.part.Window(ctx)
	if err != nil {
		return nil //nolint:nilerr // the side's own finish says it
	}
	if s.kernel() == other.kernel() {
		w.In = 0 // it has the same clock
	}
	watcher := &side{Station: other}
	if watcher.part, err = other.Agent.Watch(ctx, task, w); err != nil {
		return watcher.wrap(err)
	}
	return watcher.finish(ctx, run)
}

// hosted puts what the host of a virtual machine did in the place of what the guest saw of itself,
// which is a part of it. void says that the host's window was not counted.
func hosted(e *bench.Evidence, host bench.Run) (void string) {
	if host.Void != "" {
		return host.Void
	}
	guest := e.CPU
	e.Guest, e.CPU = &guest, host.From.CPU
	e.CPU.Tasks = maps.Clone(host.From.CPU.Tasks)
	delete(e.CPU.Tasks, engine.Own) // the host's agent, which only looked
	return ""
}

// withTasks adds what a node saw. What the end knows of itself stays: the node takes its own
// agent for the engine.
func withTasks(use *bench.CPUUse, node bench.CPUUse) {
	if len(node.Tasks) == 0 {
		return
	}
	own := use.Tasks
	use.Tasks = maps.Clone(node.Tasks)
	delete(use.Tasks, engine.Own)
	maps.Copy(use.Tasks, own)
}
