package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/ipam/blocks"
)

// answerLook is how often the answers of nodes are looked at that have no request for the
// pool: those wake no Reconcile.
const answerLook = time.Second

// answerOf returns what a node repeats of roll calls: nothing while it cannot read its
// ledger, or while the state is that of an earlier Node of the name.
func answerOf(s *v1alpha1.NodeState, current bool) blocks.Answer {
	out := blocks.Answer{Node: s.Name}
	if current && s.Status.AddressesUnread == 0 {
		out.IDs = s.Status.RollCalls
	}
	return out
}

// callRoll asks every node what it holds where the API server may have been restored from
// a backup, and reports whether addresses of the pool may be granted.
func (a *Addresses) callRoll(ctx context.Context, o *v1alpha1.AddressPool, p blocks.Pool, r reports) (granting bool, err error) {
	v := a.roll.Judge(blocks.Look{Pool: p, Version: o.Generation, Demands: r.demands, Answers: r.answers}, a.Now())
	if len(v.Missing) == 0 {
		return true, nil
	}
	before := o.DeepCopy()
	o.Spec.RollCall = v.ID
	if v.Lost {
		a.setCondition(o, v1alpha1.ConditionWaiting, true, "Waiting", fmt.Sprintf(
			"nodes hold addresses that are in no block, as after a restore of the API server: nothing is granted until %s report what they hold; delete the Node objects of machines that are gone",
			listSome(v.Missing)))
	}
	return false, a.save(ctx, before, o)
}

// listSome lists names, and counts those beyond the first eight.
func listSome(names []string) string {
	const most = 8
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
