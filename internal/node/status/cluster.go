package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	conditions "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
)

// Cluster has the parts from which the status of a cluster is assembled.
type Cluster struct {
	Name     string // as the kubeconfig calls it
	Now      time.Time
	States   []v1alpha1.NodeState
	Policies []v1alpha1.NodePolicy
	Pools    []v1alpha1.AddressPool
	// Daemons are the pods of culvertd. Only they show that a culvertd has died, since its
	// NodeState stays as it is. Empty when they cannot be read.
	Daemons []api.DaemonPod
}

// AssembleCluster makes the picture. Everything is ordered by name; lists are
// never nil.
func AssembleCluster(in Cluster) api.ClusterStatus {
	out := api.ClusterStatus{
		Cluster: in.Name, Time: in.Now, Problems: []api.Problem{}, Nodes: []api.NodeStatus{},
		Policies: []api.ClusterPolicy{}, Networks: []api.Network{},
	}
	for _, s := range in.States {
		n := FromNodeState(s, in.Now)
		if len(in.Daemons) > 0 {
			checkAlive(&n, in.Daemons)
		}
		out.Nodes = append(out.Nodes, n)
	}
	slices.SortFunc(out.Nodes, func(a, b api.NodeStatus) int { return strings.Compare(a.Node, b.Node) })
	out.Problems = append(out.Problems, findSilent(in)...)
	for _, p := range in.Policies {
		out.Policies = append(out.Policies, api.ClusterPolicy{
			Name: p.Name, Priority: int(p.Spec.Priority), Nodes: int(p.Status.Nodes), Applied: int(p.Status.AppliedNodes),
		})
		out.Problems = append(out.Problems, policyProblems(p, in.States)...)
	}
	slices.SortFunc(out.Policies, func(a, b api.ClusterPolicy) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), strings.Compare(a.Name, b.Name))
	})
	networks := networksOfPools(in.Pools)
	for _, n := range out.Nodes {
		networks = append(networks, NetworksOf(n)...)
	}
	out.Networks = MergeNetworks(networks)
	for _, p := range in.Pools {
		out.Problems = append(out.Problems, poolProblems(&p)...)
	}
	return out
}

// stateProblems returns the problems that a node reports, in its lists and its conditions.
func stateProblems(s v1alpha1.NodeStateStatus) []api.Problem {
	out := []api.Problem{}
	for _, c := range s.Conditions {
		if c.Status == metav1.ConditionFalse && c.Type != v1alpha1.ConditionPoliciesApplied { // the problem of each policy says why
			out = append(out, problemOf(c.Type, c))
		}
	}
	for _, p := range s.Policies {
		if !p.Applied {
			out = append(out, api.Problem{Object: "NodePolicy " + p.Name, Reason: "is not applied: " + p.Reason})
		}
	}
	for _, p := range s.Problems {
		out = append(out, api.Problem{Object: p.Object, Reason: p.Reason, Next: p.Next})
	}
	return out
}

// problemOf returns the problem that a condition reports.
func problemOf(object string, c metav1.Condition) api.Problem {
	p := api.Problem{Object: object, Reason: c.Message, Since: c.LastTransitionTime.Time}
	if p.Reason == "" {
		p.Reason = c.Reason
	}
	return p
}

// checkAlive marks a node as not ready if no culvertd runs on it.
func checkAlive(n *api.NodeStatus, daemons []api.DaemonPod) {
	p := api.Problem{
		Object: "culvertd", Reason: "it does not run on this node: this is its last report",
		Next: "does the DaemonSet's nodeSelector still choose the node? kubectl get daemonset -A -l app.kubernetes.io/name=culvertd",
	}
	for _, d := range daemons {
		switch {
		case d.Node != n.Node:
		case d.Ready:
			return
		default:
			p.Reason = fmt.Sprintf("its pod %s/%s is not ready%s: this is its last report", d.Namespace, d.Name, formatReason(d.Reason))
			p.Next = logCommands(d)
		}
	}
	n.Ready = false
	n.Problems = slices.Insert(n.Problems, 0, p)
}

// findSilent returns problems of nodes with a culvertd and without a NodeState.
func findSilent(in Cluster) []api.Problem {
	said := map[string]bool{"": true} // a pod that is not on a node yet
	for _, s := range in.States {
		said[s.Name] = true
	}
	var out []api.Problem
	for _, d := range in.Daemons {
		if !said[d.Node] {
			out = append(out, api.Problem{Object: "node " + d.Node, Reason: "its culvertd has not reported yet" + formatReason(d.Reason), Next: logCommands(d)})
		}
		said[d.Node] = true
	}
	return out
}

func logCommands(d api.DaemonPod) string {
	return fmt.Sprintf("kubectl -n %[1]s describe pod %[2]s; kubectl -n %[1]s logs %[2]s", d.Namespace, d.Name)
}

func formatReason(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// policyProblems returns the problems of a policy that no node reports.
func policyProblems(p v1alpha1.NodePolicy, states []v1alpha1.NodeState) []api.Problem {
	for _, s := range states {
		for _, on := range s.Status.Policies {
			if on.Name == p.Name && !on.Applied {
				return nil
			}
		}
	}
	for _, c := range p.Status.Conditions {
		bad := metav1.ConditionFalse
		if c.Type == v1alpha1.ConditionConflict || c.Type == v1alpha1.ConditionEmptyPool {
			bad = metav1.ConditionTrue
		}
		if c.Status == bad {
			return []api.Problem{problemOf("NodePolicy "+p.Name, c)}
		}
	}
	return nil
}

// poolProblems returns the problems that the conditions of an AddressPool report.
func poolProblems(p *v1alpha1.AddressPool) (out []api.Problem) {
	object := "network " + p.Spec.Network
	if p.Spec.Network == "" {
		object = "AddressPool " + p.Name
	}
	for kind, bad := range map[string]metav1.ConditionStatus{
		v1alpha1.ConditionExhausted: metav1.ConditionTrue, v1alpha1.ConditionDisputed: metav1.ConditionTrue,
		v1alpha1.ConditionTooLarge: metav1.ConditionTrue, v1alpha1.ConditionValid: metav1.ConditionFalse,
	} {
		if c := conditions.FindStatusCondition(p.Status.Conditions, kind); c != nil && c.Status == bad {
			out = append(out, problemOf(object, *c))
		}
	}
	slices.SortFunc(out, func(a, b api.Problem) int { return strings.Compare(a.Reason, b.Reason) })
	return out
}

// NetworksOf returns the networks of a node's VFs that have an owner.
func NetworksOf(n api.NodeStatus) []api.Network {
	var out []api.Network
	for _, v := range n.VFs {
		if v.Network != "" && v.Owner != nil {
			out = append(out, api.Network{Name: v.Network, VFs: 1, Nodes: []string{n.Node}, Owners: []string{v.Owner.String()}})
		}
	}
	return MergeNetworks(out)
}

// networksOfPools returns the networks of pools of addresses.
func networksOfPools(pools []v1alpha1.AddressPool) (out []api.Network) {
	for _, p := range pools {
		n := api.Network{Name: p.PoolID(), Addresses: p.Status.Addresses, Granted: p.Status.Granted}
		for _, b := range p.Spec.Blocks {
			n.Nodes = append(n.Nodes, b.Node)
		}
		out = append(out, n)
	}
	return out
}

// MergeNetworks adds up the parts of networks that have one name.
func MergeNetworks(parts []api.Network) []api.Network {
	at := map[string]int{}
	out := []api.Network{}
	for _, p := range parts {
		i, known := at[p.Name]
		if !known {
			i = len(out)
			at[p.Name] = i
			out = append(out, api.Network{Name: p.Name, Nodes: []string{}, Owners: []string{}})
		}
		n := &out[i]
		n.VFs += p.VFs
		n.Nodes, n.Owners = append(n.Nodes, p.Nodes...), append(n.Owners, p.Owners...)
		n.Addresses, n.Granted = max(n.Addresses, p.Addresses), max(n.Granted, p.Granted)
	}
	for i := range out {
		for _, l := range []*[]string{&out[i].Nodes, &out[i].Owners} {
			slices.Sort(*l)
			*l = slices.Compact(*l)
		}
	}
	slices.SortFunc(out, func(a, b api.Network) int { return strings.Compare(a.Name, b.Name) })
	return out
}
