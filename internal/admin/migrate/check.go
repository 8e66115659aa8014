package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// Check returns a note for each thing that is left to do after a migration. It returns none when
// the old parts are gone, culvertd runs and has taken over the VFs, every pod with networks runs
// and every network is served.
func Check(c Cluster) []Note {
	var out []Note
	left := func(object, format string, args ...any) {
		out = append(out, Note{Object: object, Text: fmt.Sprintf(format, args...), Lost: true})
	}
	for _, p := range c.Parts() {
		if p.Goes && p.workload.Replicas > 0 {
			left(p.Workload, "the %s is still there: %s", p.Name, p.Why)
		}
	}
	switch {
	case !c.Installed:
		left("Culvert", "it is not installed: kubectl apply --server-side -f dist/kubernetes/culvert.yaml")
	case len(c.Daemons) == 0:
		left("Culvert", "no culvertd runs: kubectl -n culvert-system get pods")
	}
	for _, d := range c.Daemons {
		if !d.Ready {
			left("culvertd "+d.Name, "it is not ready on node %s: %s", d.Node, d.Reason)
		}
	}
	out = append(out, c.findSilent()...)
	for _, n := range c.Nodes {
		out = append(out, findUntaken(n)...)
	}
	out = append(out, c.Unapplied...)
	for _, p := range c.Pods {
		if !p.Ready {
			left(p.String(), "it is not ready: %s", p.Reason)
		}
	}
	for _, n := range c.judged() {
		if n.Lost {
			out = append(out, n)
		}
	}
	return out
}

// findSilent names the nodes whose culvertd is ready and has not reported the node's VFs, or
// reports that they are not made.
func (c Cluster) findSilent() []Note {
	var out []Note
	for _, d := range c.Daemons {
		i := slices.IndexFunc(c.Nodes, func(n api.NodeStatus) bool { return n.Node == d.Node })
		switch {
		case d.Ready && i < 0:
			out = append(out, Note{Object: "node " + d.Node, Text: "its culvertd has not reported its VFs yet", Lost: true})
		case d.Ready && !c.Nodes[i].Ready:
			out = append(out, Note{Object: "node " + d.Node, Text: "its culvertd has not made its VFs yet", Lost: true})
		}
	}
	return out
}

// findUntaken returns notes about the VFs of a node that are not Culvert's yet. One note for each
// PF names the VFs that culvertd is taking over or making. The others name each a VF that culvertd
// does not take over, with the reason. VFs that no pool and no policy wants, and those that pods
// have, are left out.
func findUntaken(n api.NodeStatus) []Note {
	var out []Note
	for _, pf := range n.PFs {
		if pf.Err != "" && pf.WantedVFs != nil {
			out = append(out, Note{Object: "PF " + pf.Name + " of node " + n.Node, Text: "culvertd cannot read it, so it may have VFs that are not taken over: " + pf.Err, Lost: true})
			continue
		}
		var busy []string
		for _, v := range n.VFs {
			switch {
			case v.PF != pf.Name || v.Missing:
			case v.Phase == string(vf.PhaseMaking):
				busy = append(busy, v.Name)
			case v.Phase == api.PhaseUnmanaged && (v.Pool != "" || pf.WantedVFs != nil):
				out = append(out, Note{Object: "VF " + v.Name + " of node " + n.Node, Text: "it is not taken over: " + cmp.Or(reasonOf(n, v), "culvertd has not come to it yet"), Lost: true})
			}
		}
		if len(busy) > 0 {
			out = append(out, Note{Object: "node " + n.Node, Text: "culvertd is taking over " + strings.Join(busy, ", "), Lost: true})
		}
	}
	return out
}

// reasonOf returns the problem that a node reports about a VF, or "" if it reports none.
func reasonOf(n api.NodeStatus, v api.VF) string {
	for _, p := range n.Problems {
		if p.Object == "VF "+v.PCI.String() {
			return p.Reason
		}
	}
	return ""
}
