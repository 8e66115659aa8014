package controller

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/vf"
)

// changing is a node with PFs whose number of VFs is to change.
type changing struct {
	node    string
	wanted  []string // every change: "PF enp1s0: 4 VFs, 7 wanted"
	what    []string // the changes that evictions make possible
	pods    []string // the pods that have VFs of these PFs, namespace/name
	held    []string // the other changes, with the owners that cannot be evicted
	unknown []string // beginnings of changes that may be wanted: "PF enp1s0:", or "PF " for all
}

// quarantined is the phase of a VF in quarantine, as VFState has it.
const quarantined = "quarantined"

// changes returns the changes of a node's PFs that wait until the VFs are free.
func changes(s *v1alpha1.NodeState) changing {
	c := changing{node: s.Name}
	if meta.IsStatusConditionPresentAndEqual(s.Status.Conditions, v1alpha1.ConditionPoliciesApplied, metav1.ConditionUnknown) {
		c.unknown = []string{"PF "} // culvertd was started and does not know the policies yet
	}
	vfs := map[string][]*v1alpha1.VFState{} // by PF
	for i := range s.Status.VFs {
		pf, _, _ := strings.Cut(s.Status.VFs[i].Name, "#")
		vfs[pf] = append(vfs[pf], &s.Status.VFs[i])
	}
	for _, pf := range s.Status.PFs {
		if pf.Error != "" {
			c.unknown = append(c.unknown, "PF "+pf.Name+":")
		}
		if pf.WantedVFs == nil || *pf.WantedVFs == pf.NumVFs || pf.Error != "" || *pf.WantedVFs > pf.TotalVFs {
			continue // as wanted, or a change that culvertd does not make even if the VFs are free
		}
		change := fmt.Sprintf("PF %s: %s, %d wanted", pf.Name, vf.CountText(int(pf.NumVFs)), *pf.WantedVFs)
		c.wanted = append(c.wanted, change)
		pods, others := ownersOf(vfs[pf.Name])
		if len(others) > 0 {
			c.held = append(c.held, fmt.Sprintf("%s, held by %s", change, strings.Join(others, ", ")))
			continue
		}
		c.what = append(c.what, change)
		c.pods = append(c.pods, pods...)
	}
	slices.Sort(c.pods)
	c.pods = slices.Compact(c.pods)
	return c
}

// ownersOf returns the pods that have VFs of a PF, and the other owners and users, which cannot be
// evicted. A VF in quarantine delays no change, unless a program uses it.
func ownersOf(vfs []*v1alpha1.VFState) (pods, others []string) {
	for _, v := range vfs {
		switch {
		case v.UsedBy != "":
			others = append(others, fmt.Sprintf("a user outside Culvert (VF %s: %s)", v.Name, v.UsedBy))
		case v.Owner == nil || v.Phase == quarantined:
		case v.Owner.Kind == vf.OwnerPod && strings.Contains(v.Owner.Name, "/"):
			pods = append(pods, v.Owner.Name)
		default:
			others = append(others, vf.Owner{Kind: v.Owner.Kind, Name: v.Owner.Name, UID: v.Owner.UID}.String())
		}
	}
	slices.Sort(others)
	return pods, slices.Compact(others)
}

// wasTried reports whether the node was drained for all changes that evictions make possible. tried
// is the node's annotation drainedFor.
func (c changing) wasTried(tried string) bool {
	return !slices.ContainsFunc(c.what, func(w string) bool { return !strings.Contains(tried, w) })
}

// isWanted reports whether a change for which the node was drained is or may be wanted still.
func (c changing) isWanted(tried string) bool {
	return c.mayWant(tried) || slices.ContainsFunc(c.wanted, func(w string) bool { return strings.Contains(tried, w) })
}

// mayWant reports whether culvertd does not know if a change is wanted for which the node was
// drained.
func (c changing) mayWant(tried string) bool {
	return slices.ContainsFunc(c.unknown, func(w string) bool { return strings.Contains(tried, w) })
}

// isDrainForgotten reports whether a write removed the annotation drainedFor from a Node.
func isDrainForgotten(before, after metav1.Object) bool {
	return before.GetAnnotations()[drainedFor] != "" && after.GetAnnotations()[drainedFor] == ""
}
