package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api/nodestate"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/reasons"
)

// Bounds on the message of the condition Healthy: a policy may select thousands of nodes.
const (
	mostAilments   = 8
	longestAilment = 300 // bytes
)

// ailment is a fault of a PF that a policy names, on one node.
type ailment struct{ node, pf, reason, text string }

// findAilments returns the faults of those PFs of a node on which the spec wants VFs, in the order
// of the node's report.
func findAilments(spec desired.Spec, s *v1alpha1.NodeState) (out []ailment) {
	var aside, dark map[string]int
	for _, p := range s.Status.PFs {
		pf := nodestate.ToPF(p)
		want, named := spec.ForPF(pf)
		if !named || want.VFs == 0 {
			continue
		}
		if aside == nil {
			aside, dark = nodestate.CountAiling(s.Status.VFs)
		}
		add := func(reason, text string) {
			out = append(out, ailment{s.Name, p.Name, reason, excerpt.Fit(fmt.Sprintf("%s: %s %s", s.Name, p.Name, text), longestAilment)})
		}
		switch {
		case p.Error != "":
			add(reasons.Unreadable, "cannot be read: "+p.Error)
			continue
		case p.Flapping:
			add(reasons.Flapping, "has a link that is flapping")
		case !p.Carrier:
			add(reasons.NoLink, "has no link")
		}
		for _, f := range pf.Faults {
			add(reasons.DeviceErrors, f.Describe())
		}
		if n := dark[p.Name]; n > 0 {
			add(reasons.VFNoCarrier, fmt.Sprintf("has a link, and VFs of pods do not have it: %d", n))
		}
		if n := aside[p.Name]; n > 0 {
			add(reasons.Quarantine, fmt.Sprintf("has VFs in quarantine: %d", n))
		}
	}
	return out
}

// describeAilments returns the reason and the message of the condition Healthy. The message names
// the nodes and PFs, in the order of their names, and counts those for which it has no room.
func describeAilments(all []ailment) (reason, message string) {
	if len(all) == 0 {
		return reasons.Healthy, ""
	}
	slices.SortStableFunc(all, func(a, b ailment) int { return cmp.Or(strings.Compare(a.node, b.node), strings.Compare(a.pf, b.pf)) })
	reason = all[0].reason
	nodes, pfs := map[string]bool{}, map[[2]string]bool{}
	var texts []string
	for _, a := range all {
		if a.reason != reason {
			reason = reasons.Several
		}
		nodes[a.node], pfs[[2]string{a.node, a.pf}] = true, true
		if len(texts) < mostAilments {
			texts = append(texts, a.text)
		}
	}
	if more := len(all) - len(texts); more > 0 {
		texts = append(texts, excerpt.More(more))
	}
	return reason, fmt.Sprintf("PFs with problems: %d, nodes: %d: %s: see kubectl get nodestates -o yaml", len(pfs), len(nodes), strings.Join(texts, "; "))
}

// healthOf returns the part of a NodeState that findAilments reads.
func healthOf(s *v1alpha1.NodeState) any {
	aside, dark := nodestate.CountAiling(s.Status.VFs)
	out := []any{aside, dark}
	for _, p := range s.Status.PFs {
		p.NumVFs, p.WantedVFs, p.SpeedMbps, p.Master = 0, nil, 0, nil
		out = append(out, p)
	}
	return out
}
