package trial

import (
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/reconcile"
	"github.com/culvert-net/culvert/internal/vf"
)

// findRules returns, for each PF that plans change, the rule that brings its present state back. A
// host.yaml leaves PFs that it does not name alone, and the MTU where it names none; so the earlier
// file is not enough.
func (k *Keeper) findRules(earlier []byte, plans []reconcile.PFPlan) (rules []desired.PFRule) {
	host, err := desired.Parse("host.yaml", earlier)
	if err != nil {
		host = desired.Spec{}
	}
	spec := k.Preview(host)
	for _, p := range plans {
		if !p.Managed || p.Err != nil || len(p.Changes) == 0 {
			continue
		}
		want, managed := spec.ForPF(p.PF)
		if !managed {
			want = desired.PFSpec{VFs: p.PF.NumVFs, Autoprobe: p.PF.Autoprobe != vf.No}
		}
		if want.MTU == 0 {
			want.MTU = p.PF.MTU
		}
		want.From = "the state before the trial"
		rules = append(rules, desired.PFRule{PCI: p.PF.PCI, Want: want})
	}
	return rules
}

func hasRule(rules []desired.PFRule, pf vf.PF) bool {
	return slices.ContainsFunc(rules, func(r desired.PFRule) bool { return r.Matches(pf) })
}

// Stays returns, in words for people, what going back from plans leaves. content is the file before
// the trial, nil for none.
func (k *Keeper) Stays(plans []reconcile.PFPlan) (out []string) {
	content, _ := k.File.Content()
	host, err := desired.Parse("host.yaml", content)
	if err != nil {
		out = append(out, "The host.yaml before the trial has mistakes: going back brings the file and the number of VFs, and culvertd follows none of its pools.")
		host = desired.Spec{}
	}
	for _, p := range plans {
		if !p.Managed || p.Err != nil || len(p.Changes) == 0 {
			continue
		}
		out = append(out, staysOf(k.Preview(host), p)...)
	}
	return out
}

// staysOf returns what stays of the changes of one PF.
func staysOf(back desired.Spec, p reconcile.PFPlan) (out []string) {
	remade := false
	var vfs []int
	for _, c := range p.Changes {
		switch {
		case c.VF < 0 && c.Attribute == "state":
			out = append(out, fmt.Sprintf("PF %s stays up.", p.PF.Label()))
		case c.VF < 0 && c.Attribute == "sriov_numvfs":
			remade = true
		case c.VF >= 0 && (c.Attribute == "mac" || c.Attribute == "driver" && !restoresDriver(back, p.PF, c.VF)):
			if !slices.Contains(vfs, c.VF) {
				vfs = append(vfs, c.VF)
			}
		}
	}
	if remade {
		return append(out, fmt.Sprintf("The VFs of PF %s are made anew both ways. A pod or guest that gets one meanwhile keeps it: going back then waits until its release.", p.PF.Label()))
	}
	for _, i := range vfs {
		out = append(out, fmt.Sprintf("VF %s#%d keeps its new MAC address or driver.", p.PF.Label(), i))
	}
	return out
}

// restoresDriver reports whether a pool of the earlier file decides the driver of a VF.
func restoresDriver(back desired.Spec, pf vf.PF, index int) bool {
	v, _ := pf.VF(index)
	pool, pooled := back.PoolOf(pf, index, v)
	return pooled && !pool.AsBound
}
