package daemon

import (
	"fmt"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/desired"
	"github.com/culvert-net/culvert/reconcile"
	"github.com/culvert-net/culvert/vf"
)

// describe says what reconcile's plans would change, for people. PFs that stay
// as they are are left out.
func describe(plans []reconcile.PFPlan, spec desired.Spec) api.Plan {
	out := api.Plan{PFs: []api.PFPlan{}}
	for _, p := range plans {
		if len(p.Changes) == 0 && p.Err == nil {
			continue
		}
		d := api.PFPlan{PF: p.PF.Label(), PCI: p.PF.PCI, Changes: changes(p)}
		if p.Err != nil {
			d.Refused = p.Err.Error()
		}
		for _, r := range p.Hurts {
			d.Hurts = append(d.Hurts, api.Holder{
				VF: fmt.Sprintf("%s#%d", p.PF.Label(), r.ID.Index), Owner: r.Lease.Owner, Network: r.Lease.Network, Phase: string(r.Phase),
			})
		}
		out.PFs = append(out.PFs, d)
	}
	out.Notes = notes(plans, spec)
	return out
}

// changes lists the PF's own, then the VFs that go, then those that come or
// become something else.
func changes(p reconcile.PFPlan) []api.Change {
	out := []api.Change{}
	for _, c := range p.Changes {
		if c.VF < 0 {
			out = append(out, api.Change{Op: api.Modify, Attribute: c.Attribute, From: c.From, To: c.To})
		}
	}
	if p.Remakes() {
		for _, v := range p.PF.VFs {
			out = append(out, api.Change{Op: api.Remove, Object: fmt.Sprintf("VF %d", v.ID.Index), From: v.PCI.String(), Note: heldBy(p, v.ID)})
		}
	}
	for _, c := range p.Changes {
		switch {
		case c.VF < 0:
		case p.Remakes():
			out = append(out, api.Change{Op: api.Add, Object: fmt.Sprintf("VF %d", c.VF), Attribute: c.Attribute, To: c.To})
		default:
			out = append(out, api.Change{Op: api.Modify, Object: fmt.Sprintf("VF %d", c.VF), Attribute: c.Attribute, From: c.From, To: c.To})
		}
	}
	return out
}

func heldBy(p reconcile.PFPlan, id vf.ID) string {
	for _, r := range p.Hurts {
		if r.ID == id {
			return "held by " + r.Lease.Owner.String()
		}
	}
	return ""
}

// notes are about entries that have no effect on this host.
func notes(plans []reconcile.PFPlan, spec desired.Spec) []string {
	var out []string
	for _, rule := range spec.PFs {
		used := false
		for _, p := range plans {
			used = used || rule.Matches(p.PF)
		}
		if !used {
			out = append(out, fmt.Sprintf("%s: no PF of this host matches this entry", rule.Want.From))
		}
	}
	for _, pool := range spec.Pools {
		if !reconcile.Selects(spec, pool, plans) {
			out = append(out, fmt.Sprintf("%s: pool %s gets no VF of this host", pool.From, pool.FullName()))
		}
	}
	return out
}
