package why

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/screen"
)

// noClaims is in the scheduler's message about nodes on which a pod's claims find no devices
// (kube-scheduler, plugin DynamicResources).
const noClaims = "cannot allocate all claims"

// claimCauses is about a pod whose ResourceClaims find no devices: maintenances that keep VFs from claims,
// and the VFs that claims can have. Devices of other drivers may be the reason as well, so these causes come
// with the scheduler's own message.
func (f Facts) claimCauses() (out []api.Cause) {
	c, _ := findCondition(f.Pod.Status.Conditions, "PodScheduled")
	if !strings.Contains(c.Message, noClaims) && !slices.ContainsFunc(f.eventCauses("FailedScheduling"), func(c api.Cause) bool { return strings.Contains(c.Text, noClaims) }) {
		return nil
	}
	held := "VFs that claims can have are free, and do not fit the claim"
	for _, p := range f.Policies {
		if m := p.Spec.Maintenance; m != nil && m.Effect != "None" {
			pfs := "all PFs"
			if len(m.PFs) > 0 {
				pfs = "PFs " + strings.Join(m.PFs, ", ")
			}
			held = "VFs that claims can have are free, and are in maintenance or do not fit the claim"
			out = append(out, api.Cause{
				Source: "NodePolicy " + p.Name, Text: fmt.Sprintf("its maintenance gives no claim a VF of %s of %s", pfs, screen.Plural(int(p.Status.Nodes), "node")),
				Next: "when the work is done: kubectl delete nodepolicy " + p.Name + ", or take its key maintenance out",
			})
		}
	}
	if vfs, found := f.claimableVFs(held); found {
		out = append(out, vfs)
	}
	return out
}

// claimableVFs has a line for each pool of a node that is offered to claims; found is false if there is none.
// held is the text where some of their VFs are free and have no taint of their PF.
func (f Facts) claimableVFs(held string) (c api.Cause, found bool) {
	c = api.Cause{Source: "NodeStates", Text: "of the VFs that claims can have, none is free", Next: "end an owner that needs its VF no longer, or offer another pool to claims"}
	for _, n := range f.Cluster.Nodes {
		for _, p := range n.Pools {
			if p.Offer != string(desired.OfferClaims) {
				continue
			}
			found = true
			free, links := f.withoutLink(n, p)
			tainted, faults := withErrors(n, p)
			free, links = free+tainted, append(links, faults...)
			if p.VFs.Free > free && n.Ready {
				c.Text, c.Next = held, "compare the selectors of the claim and its DeviceClass with the devices: kubectl get resourceslices -o yaml"
			}
			parts := append([]string{fmt.Sprintf("%d of %s free", p.VFs.Free, screen.Plural(p.VFs.Total, "VF"))}, links...)
			if !n.Ready {
				problem := firstProblem(n)
				parts = []string{problem.Object + ": " + problem.Reason}
			}
			c.Details = append(c.Details, fmt.Sprintf("%s, pool %s: %s", n.Node, p.Name, strings.Join(append(parts, describeVFs(n, p)...), "; ")))
		}
	}
	if more := len(c.Details) - mostNodes; more > 0 {
		c.Details = append(c.Details[:mostNodes], screen.Plural(more, "more pool"))
	}
	return c, found
}

// withErrors returns how many free VFs of a pool have a taint since their PF had errors of late, and which
// PFs these are. PFs without a link are those of withoutLink.
func withErrors(n api.NodeStatus, p api.Pool) (free int, lines []string) {
	for _, pf := range n.PFs {
		if !slices.Contains(p.PFs, pf.Name) || !pf.Carrier || pf.Flapping || len(pf.Faults) == 0 {
			continue
		}
		lines = append(lines, "PF "+pf.Name+" "+pf.Faults[0].Describe()+", so its VFs have a taint")
		for _, v := range n.VFs {
			if v.PF == pf.Name && v.Pool == p.Name && v.Phase == "free" {
				free++
			}
		}
	}
	return free, lines
}
