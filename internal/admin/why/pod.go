package why

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/internal/vf"
)

// Facts are the objects of a cluster that show what a pod waits for.
type Facts struct {
	Pod    Pod
	Events []Event // of the pod
	// Nodes are the Nodes of the cluster, or nil if the caller may not list them.
	Nodes []Node
	// Cluster is the status that culvertd and culvert-controller report.
	Cluster  api.ClusterStatus
	Policies []v1alpha1.NodePolicy
	// Networks has the annotations of the NetworkAttachmentDefinitions that the pod's annotations
	// name and that exist, by namespace/name.
	Networks map[string]map[string]string
	// Unread are the networks, as namespace/name, that the caller may not read.
	Unread map[string]bool
	// Isolation is culvertd's rule about networks of other namespaces.
	Isolation netannotation.Isolation
}

// OfPod returns what a pod waits for, or what is wrong with its VFs.
func OfPod(f Facts) api.Why {
	p := f.Pod
	out := api.Why{Object: "pod " + p.String(), Node: p.Spec.NodeName, Time: f.Cluster.Time, Causes: []api.Cause{}}
	var causes []api.Cause
	switch {
	case p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed":
		out.State, causes = api.WhyEnded, f.causesOfEnd()
	case p.Metadata.DeletionTimestamp != nil:
		out.State, out.Since, causes = api.WhyEnds, *p.Metadata.DeletionTimestamp, f.causesOfSlowEnd()
	case p.isRunning():
		out.State, out.Since, causes = api.WhyRuns, p.Status.StartTime, f.causesWhileRunning()
	case p.Spec.NodeName == "":
		out.State, out.Since, causes = api.WhyWaits, p.Metadata.CreationTimestamp, f.causesOnNoNode()
	default:
		scheduled, _ := findCondition(p.Status.Conditions, "PodScheduled")
		out.State, out.Since, causes = api.WhyWaits, scheduled.LastTransitionTime, f.causesOnANode()
	}
	out.Causes = append(out.Causes, causes...)
	return out
}

// causesOfEnd is about a pod that does not run again.
func (f Facts) causesOfEnd() []api.Cause {
	p := f.Pod.Status
	if p.Phase == "Succeeded" {
		return nil
	}
	c := api.Cause{Source: "kubelet", Text: joinReason(p.Reason, p.Message), Next: "its Deployment or other controller creates a new pod; create a bare pod again"}
	switch p.Reason {
	case "UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory":
		c.Next = "the kubelet does not try such a pod again: " + c.Next + ". A node that was just started refuses pods with devices until its device plugins have registered"
	case "":
		c.Text = "a container of it failed"
		c.Next = fmt.Sprintf("kubectl -n %s logs %s", f.Pod.Metadata.Namespace, f.Pod.Metadata.Name)
	}
	return []api.Cause{c}
}

// causesOfSlowEnd is about a pod that is being deleted.
func (f Facts) causesOfSlowEnd() (out []api.Cause) {
	m := f.Pod.Metadata
	if len(m.Finalizers) > 0 && !f.Pod.isRunning() {
		out = append(out, api.Cause{Source: "API server", Text: "it has finalizers: " + strings.Join(m.Finalizers, ", "), Next: "see why the programs that set them do not remove them"})
	}
	out = append(out, f.nodeCauses()...)
	return append(out, f.eventCauses("FailedKillPod", "FailedPreStopHook", reasons.EvictionRefused)...)
}

// causesWhileRunning is about the VFs of a pod that runs, and about containers that are not ready.
func (f Facts) causesWhileRunning() (out []api.Cause) {
	for _, v := range f.vfs() {
		if v.NoCarrier {
			out = append(out, api.Cause{Source: "NodeState " + v.Node, Text: fmt.Sprintf("its VF %s has no carrier, although PF %s has a link", v.Name, v.PF), Next: "delete the pod, so that culvertd binds the VF's driver anew"})
		}
		if v.Reason != "" {
			out = append(out, api.Cause{Source: "NodeState " + v.Node, Text: fmt.Sprintf("VF %s: %s", v.Name, v.Reason)})
		}
	}
	for _, n := range f.Cluster.Nodes {
		if n.Node != f.Pod.Spec.NodeName {
			continue
		}
		for _, p := range n.Problems {
			if namesObject(p.Object+": "+p.Reason, f.Pod.String()) || slices.ContainsFunc(f.vfs(), func(v api.VF) bool { return p.Object == "PF "+v.PF }) {
				out = append(out, causeOf("NodeState "+n.Node, p))
			}
		}
	}
	out = append(out, f.eventCauses(reasons.VFLost, reasons.VFChanged, reasons.GuardNotEnforced, reasons.VFNotTrusted, reasons.ServiceUnreachable)...)
	return append(out, f.containerCauses()...)
}

// causesOnNoNode is about a pod that the scheduler has not put on a node.
func (f Facts) causesOnNoNode() (out []api.Cause) {
	var gates []string
	for _, g := range f.Pod.Spec.SchedulingGates {
		gates = append(gates, g.Name)
	}
	if len(gates) > 0 {
		out = append(out, api.Cause{Source: "scheduler", Text: "the pod has scheduling gates: " + strings.Join(gates, ", "), Next: "the programs that set them remove them"})
	}
	var explained []string
	for _, r := range f.Pod.resources() {
		if c, ok := f.shortage(r); ok {
			out, explained = append(out, c), append(explained, r.name)
		}
	}
	out = append(out, f.claimCauses()...)
	out = append(out, f.schedulerCauses(explained)...)
	out = append(out, f.networkCauses()...)
	if len(out) == 0 {
		out = append(out, api.Cause{Source: "scheduler", Text: "it has not reported anything about the pod", Next: "is the scheduler " + cmp.Or(f.Pod.Spec.SchedulerName, "default-scheduler") + " running? kubectl -n kube-system get pods"})
	}
	return out
}

// causesOnANode is about a pod that has a node and does not run yet.
func (f Facts) causesOnANode() (out []api.Cause) {
	out = append(out, f.nodeCauses()...)
	attach := f.eventCauses(reasons.NetworkFailed, reasons.DuplicateAddress)
	if len(attach) == 0 {
		attach = f.eventCauses("FailedCreatePodSandBox")
	}
	out = append(out, attach...)
	out = append(out, f.networkCauses()...)
	out = append(out, f.addressCauses()...)
	out = append(out, f.eventCauses("FailedMount", "FailedAttachVolume", "FailedMapVolume")...)
	out = append(out, f.containerCauses()...)
	if len(out) == 0 {
		out = append(out, api.Cause{Source: "kubelet", Text: "it has the pod, and has not reported a problem", Next: "wait some seconds, and ask again"})
	}
	return out
}

// nodeCauses is about the pod's node: a culvertd that does not serve, a node that is not ready.
func (f Facts) nodeCauses() (out []api.Cause) {
	for _, n := range f.Nodes {
		if n.Metadata.Name == f.Pod.Spec.NodeName && !n.ready() {
			out = append(out, api.Cause{Source: "Node " + n.Metadata.Name, Text: "the node is not ready, so its kubelet starts and ends no pods", Next: "kubectl describe node " + n.Metadata.Name})
		}
	}
	for _, n := range f.Cluster.Nodes {
		if n.Node == f.Pod.Spec.NodeName && !n.Ready {
			out = append(out, causeOf("NodeState "+n.Node, firstProblem(n)))
		}
	}
	return out
}

// firstProblem returns the problem that keeps a node's culvertd from serving.
func firstProblem(n api.NodeStatus) api.Problem {
	if len(n.Problems) > 0 {
		return n.Problems[0]
	}
	return api.Problem{Object: "culvertd", Reason: "it does not serve on this node", Next: "kubectl -n culvert-system get pods -o wide"}
}

// causeOf returns the cause that is a problem.
func causeOf(source string, p api.Problem) api.Cause {
	return api.Cause{Source: source, Text: p.Object + ": " + p.Reason, Since: p.Since, Next: p.Next}
}

// eventCauses returns the newest event of each of some reasons, the newest first.
func (f Facts) eventCauses(wanted ...string) []api.Cause {
	var found []Event
	for _, e := range f.Events {
		if !slices.Contains(wanted, e.Reason) {
			continue
		}
		same := func(o Event) bool { return o.Reason == e.Reason }
		if i := slices.IndexFunc(found, same); i < 0 {
			found = append(found, e)
		} else if found[i].last().Before(e.last()) {
			found[i] = e
		}
	}
	slices.SortStableFunc(found, func(a, b Event) int { return b.last().Compare(a.last()) })
	var out []api.Cause
	for _, e := range found {
		out = append(out, api.Cause{Source: cmp.Or(e.reporter(), "event "+e.Reason), Text: e.Message, Since: e.first()})
	}
	return out
}

// containerCauses is about containers that wait or are not ready, for reasons that are not Culvert's.
func (f Facts) containerCauses() (out []api.Cause) {
	const kubeletNormal = "ContainerCreating PodInitializing"
	describe := fmt.Sprintf("kubectl -n %s describe pod %s", f.Pod.Metadata.Namespace, f.Pod.Metadata.Name)
	for _, c := range slices.Concat(f.Pod.Status.InitContainerStatuses, f.Pod.Status.ContainerStatuses) {
		switch w := c.State.Waiting; {
		case w != nil && !strings.Contains(kubeletNormal, w.Reason):
			out = append(out, api.Cause{Source: "kubelet", Text: fmt.Sprintf("container %s: %s", c.Name, joinReason(w.Reason, w.Message)), Next: describe})
		case c.State.Running != nil && !c.Ready && f.Pod.isRunning():
			out = append(out, api.Cause{Source: "kubelet", Text: fmt.Sprintf("container %s runs and is not ready: its readiness probe fails", c.Name), Next: describe})
		}
	}
	return out
}

// vfs returns the VFs that the pod has.
func (f Facts) vfs() (out []api.VF) {
	for _, n := range f.Cluster.Nodes {
		for _, v := range n.VFs {
			if v.Owner != nil && v.Owner.Kind == vf.OwnerPod && v.Owner.Name == f.Pod.String() {
				v.Node = n.Node
				out = append(out, v)
			}
		}
	}
	return out
}

// namesObject reports whether a text names a pod: namespace/name, and no longer name that begins or ends
// alike.
func namesObject(text, pod string) bool {
	alone := regexp.MustCompile(`(?:^|[^a-z0-9.-])` + regexp.QuoteMeta(pod) + `(?:$|[^a-z0-9.-]|\.(?:\s|$))`)
	return alone.MatchString(text)
}

// joinReason returns "reason: message", or the one that is there.
func joinReason(reason, message string) string {
	if reason == "" || message == "" {
		return reason + message
	}
	return reason + ": " + message
}
