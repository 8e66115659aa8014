package why

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/screen"
	"github.com/culvert-net/culvert/internal/suggest"
)

// mostNodes is for how many nodes a cause has a line.
const mostNodes = 20

// shortage explains why no node has enough VFs of a resource. It returns false if the resource is not
// Culvert's, or if a node could serve the pod.
func (f Facts) shortage(r requestedResource) (api.Cause, bool) {
	c := api.Cause{Source: "NodeStates", Text: fmt.Sprintf("no node has %s of %s free", countVFs(r.count), r.name)}
	scheduled, _ := findCondition(f.Pod.Status.Conditions, "PodScheduled")
	if c.Since = scheduled.LastTransitionTime; c.Since.IsZero() {
		c.Since = f.Pod.Metadata.CreationTimestamp
	}
	have := false
	for _, n := range f.Cluster.Nodes {
		for _, p := range n.Pools {
			if p.Name != r.name {
				continue
			}
			have = true
			line, next := f.describePool(n, p, r.count)
			if line == "" && !f.isInsufficient(r.name) {
				return api.Cause{}, false
			}
			if line == "" { // the scheduler counts the requests of pods that start, and the NodeState is seconds old
				line = strings.Join(append([]string{fmt.Sprintf("%d of %s free by its NodeState, and requested by other pods", p.VFs.Free, screen.Plural(p.VFs.Total, "VF"))}, describeVFs(n, p)...), "; ")
				next = suggestMore(n, p)
			}
			c.Details = append(c.Details, n.Node+": "+line)
			c.Next = cmp.Or(c.Next, next)
		}
	}
	if !have {
		return f.noPool(r, c)
	}
	if more := len(c.Details) - mostNodes; more > 0 {
		c.Details = append(c.Details[:mostNodes], screen.Plural(more, "more node"))
	}
	c.Next = cmp.Or(c.Next, "end an owner that needs its VF no longer, or add a PF to the pool")
	return c, true
}

func countVFs(n int) string {
	if n == 1 {
		return "a VF"
	}
	return fmt.Sprintf("%d VFs", n)
}

// describePool says why a pool of a node does not have so many VFs for the pod, and what would help.
// line is empty if it has them.
func (f Facts) describePool(n api.NodeStatus, p api.Pool, need int) (line, next string) {
	switch {
	case !n.Ready:
		problem := firstProblem(n)
		return problem.Object + ": " + problem.Reason, problem.Next
	case p.Unserved != "":
		return p.Unserved, ""
	}
	var parts []string
	if free, links := f.withoutLink(n, p); len(links) > 0 && p.VFs.Free-free < need {
		parts = links
	} else if p.VFs.Free >= need {
		return f.offersNone(n.Node, p.Name)
	}
	if p.VFs.Total == 0 {
		parts = append(parts, "the pool has no VF"+f.problemsOf(n, p))
	} else {
		parts = append(parts, fmt.Sprintf("%d of %s free", p.VFs.Free, screen.Plural(p.VFs.Total, "VF")))
	}
	return strings.Join(append(parts, describeVFs(n, p)...), "; "), suggestMore(n, p)
}

// withoutLink returns how many free VFs of a pool are on PFs that the device plugin does not offer,
// and why.
func (f Facts) withoutLink(n api.NodeStatus, p api.Pool) (free int, lines []string) {
	for _, pf := range n.PFs {
		var why string
		switch {
		case !slices.Contains(p.PFs, pf.Name):
			continue
		case !pf.Carrier:
			why = "PF " + pf.Name + " has no link, so its VFs are not offered"
		case pf.Flapping:
			why = "the link of PF " + pf.Name + " is flapping, so its VFs are not offered"
		default:
			continue
		}
		lines = append(lines, why)
		for _, v := range n.VFs {
			if v.PF == pf.Name && v.Pool == p.Name && v.Phase == "free" {
				free++
			}
		}
	}
	return free, lines
}

// offersNone says why a node with enough free VFs takes no pod, if the Node shows that, and what would
// help.
func (f Facts) offersNone(node, resource string) (line, next string) {
	for _, n := range f.Nodes {
		offered := n.Status.Allocatable[resource]
		switch {
		case n.Metadata.Name != node:
		case n.Spec.Unschedulable:
			return "the node is cordoned", "kubectl uncordon " + node
		case !n.ready():
			return "the node is not ready", "kubectl describe node " + node
		case offered == "" || offered == "0":
			return "the kubelet offers none: culvertd's device plugin has not registered with it", "kubectl -n culvert-system get pods -o wide; look at the log of the node's culvertd"
		}
	}
	return "", ""
}

// describeVFs names the owners of a pool's VFs, and the reasons of those in quarantine or in use
// outside Culvert.
func describeVFs(n api.NodeStatus, p api.Pool) []string {
	var owners, others []string
	for _, v := range n.VFs {
		switch {
		case v.Pool != p.Name:
		case v.Owner != nil:
			owners = append(owners, v.Owner.String())
		case v.Phase == "quarantined":
			others = append(others, fmt.Sprintf("VF %s is in quarantine: %s", v.Name, v.Reason))
		case v.Phase == api.PhaseOutside || v.UsedBy != "":
			others = append(others, fmt.Sprintf("VF %s is used outside Culvert: %s", v.Name, v.UsedBy))
		case v.Phase != "free":
			others = append(others, fmt.Sprintf("VF %s: %s", v.Name, v.Phase))
		}
	}
	if len(owners) > 0 {
		slices.Sort(owners)
		others = slices.Insert(others, 0, "held by "+excerpt.Join(slices.Compact(owners)))
	}
	return others
}

// problemsOf returns the problems of a node that are about the PFs of a pool.
func (f Facts) problemsOf(n api.NodeStatus, p api.Pool) string {
	for _, problem := range n.Problems {
		if problem.Object == "pool "+p.Name || slices.ContainsFunc(p.PFs, func(pf string) bool { return problem.Object == "PF "+pf }) {
			return ": " + problem.Object + ": " + problem.Reason
		}
	}
	return ""
}

// suggestMore says how a pool of a node would get more VFs, or "".
func suggestMore(n api.NodeStatus, p api.Pool) string {
	for _, v := range n.VFs {
		if v.Pool == p.Name && v.Phase == "quarantined" {
			return fmt.Sprintf("on node %s: culvert vf show '%s' (docs/troubleshooting.md, \"A VF is quarantined\")", n.Node, v.Name)
		}
	}
	for _, pf := range n.PFs {
		if slices.Contains(p.PFs, pf.Name) && pf.Carrier && pf.TotalVFs > pf.VFs.Total {
			return fmt.Sprintf("PF %s of %s has %d VFs and can have %d: raise vfs in its NodePolicy; or end an owner that needs its VF no longer", pf.Name, n.Node, pf.VFs.Total, pf.TotalVFs)
		}
	}
	return ""
}

// noPool is about a resource of which no node has a pool.
func (f Facts) noPool(r requestedResource, c api.Cause) (api.Cause, bool) {
	names := map[string]bool{}
	for _, n := range f.Cluster.Nodes {
		for _, p := range n.Pools {
			names[p.Name] = true
		}
	}
	for _, policy := range f.Policies {
		for _, p := range policy.Spec.Pools {
			name := cmp.Or(p.Prefix, v1alpha1.GroupVersion.Group) + "/" + p.Name
			names[name] = true
			if name == r.name {
				return f.notApplied(policy.Name, r, c), true
			}
		}
	}
	for _, n := range f.Nodes {
		if _, offers := n.Status.Allocatable[r.name]; offers {
			return c, false // another device plugin's
		}
	}
	if !f.isCulverts(r.name, names) {
		return c, false
	}
	c.Text = fmt.Sprintf("no node has a pool %s%s", r.name, suggest.DidYouMean(r.name, slices.Sorted(maps.Keys(names))))
	c.Next = "declare the pool in a NodePolicy or host.yaml, or correct the resource in the pod: kubectl culvert pool list"
	return c, true
}

// isCulverts reports whether a resource is probably meant to be a pool of Culvert's: a network of the
// pod needs it, or its prefix or name is near that of a pool.
func (f Facts) isCulverts(resource string, pools map[string]bool) bool {
	for _, annotations := range f.Networks {
		if annotations[netannotation.ResourceName] == resource {
			return true
		}
	}
	prefix, _, _ := strings.Cut(resource, "/")
	for name := range pools {
		if of, _, _ := strings.Cut(name, "/"); of == prefix {
			return true
		}
	}
	return suggest.Nearest(resource, slices.Collect(maps.Keys(pools))) != ""
}

// notApplied is about a pool that a NodePolicy declares and no node has.
func (f Facts) notApplied(name string, r requestedResource, c api.Cause) api.Cause {
	c.Source = "NodePolicy " + name
	c.Text = fmt.Sprintf("it declares pool %s, and no node has it yet", r.name)
	c.Next = "kubectl describe nodepolicy " + name
	for _, policy := range f.Policies {
		if policy.Name != name {
			continue
		}
		if policy.Status.Nodes == 0 {
			c.Text = fmt.Sprintf("it declares pool %s, and its nodeSelector selects no node that runs culvertd", r.name)
			c.Next = "kubectl get nodes --show-labels; correct nodeSelector, or label a node"
		}
		for _, p := range policy.Status.Pending {
			c.Details = append(c.Details, p.Node+": "+p.Reason)
		}
		for _, condition := range policy.Status.Conditions {
			if condition.Type == v1alpha1.ConditionValid && condition.Status == "False" || condition.Type == v1alpha1.ConditionEmptyPool && condition.Status == "True" {
				c.Details = append(c.Details, condition.Message)
			}
		}
	}
	return c
}
