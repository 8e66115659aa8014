package controller

import (
	"fmt"
	"strings"
	"time"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/reasons"
)

// answerLook is how often the controller reads the answers of nodes that have no request for the
// pool, since these do not wake Reconcile.
const answerLook = time.Second

// answerOf returns the IDs of roll calls that a node repeats. There are none while the node
// cannot read its ledger, or if the state belongs to an earlier Node of the name.
func answerOf(s *v1alpha1.NodeState, current bool) blocks.RollCallAnswer {
	out := blocks.RollCallAnswer{Node: s.Name, Behind: s.Status.RollCallsBehind}
	if current && s.Status.AddressesUnread == 0 {
		out.IDs = s.Status.RollCalls
	}
	return out
}

// callRoll writes a roll call into the object if the API server may have been restored from a
// backup. It reports whether addresses of the pool may be granted.
func (a *Addresses) callRoll(o *v1alpha1.AddressPool, p blocks.Pool, r reports) (granting bool) {
	v := a.roll.Decide(blocks.RollCallState{Pool: p, Version: blocks.Version{UID: string(o.UID), Number: o.Generation}, Demands: r.demands, Answers: r.answers}, a.Now())
	if len(v.Missing) == 0 {
		return true
	}
	o.Spec.RollCall = v.ID
	switch {
	case v.Restored:
		a.setCondition(o, v1alpha1.ConditionWaiting, true, reasons.Restored, fmt.Sprintf(
			"the API server was restored from a backup that is older than its AddressPools: nothing is granted until %s report what they hold; delete the Node objects of machines that are gone",
			listSome(v.Missing)))
	case v.Lost:
		a.setCondition(o, v1alpha1.ConditionWaiting, true, reasons.Waiting, fmt.Sprintf(
			"nodes hold addresses that are in no block, as after a restore of the API server: nothing is granted until %s report what they hold; delete the Node objects of machines that are gone",
			listSome(v.Missing)))
	}
	return false
}

// listSome lists names, and counts those beyond the first eight.
func listSome(names []string) string {
	const most = 8
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
