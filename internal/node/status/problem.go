package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// findProblems returns the conditions that culvertd reports and the problems that the picture
// itself shows.
func (p picture) findProblems(st api.NodeStatus) []api.Problem {
	all := slices.Clone(p.Conditions)
	add := func(derived ...api.Problem) {
		for _, d := range derived {
			if !slices.ContainsFunc(p.Conditions, func(c api.Problem) bool { return c.Object == d.Object }) {
				all = append(all, d)
			}
		}
	}
	for _, r := range p.Spec.Unmatched(p.PFs) {
		if !slices.ContainsFunc(p.PFs, isUnknown) {
			add(p.unmatchedProblem(r))
		}
	}
	for _, pf := range p.PFs {
		add(p.pfProblems(pf)...)
	}
	for _, v := range st.VFs {
		if problem, ok := p.vfProblem(v); ok {
			add(problem)
		}
	}
	for i, pool := range st.Pools {
		mixed, forecast := p.Spec.MixedSegments(pool.Name, p.PFs), p.Spec.ForecastMixedSegments(pool.Name, p.PFs)
		switch {
		case mixed != "":
			add(api.Problem{Object: "pool " + pool.Name, Reason: "it gives out no VF: " + mixed, Next: desired.MixedNext})
		case forecast != "":
			add(api.Problem{Object: "pool " + pool.Name, Reason: "it may give out no VF once all wanted VFs are made: " + forecast, Next: desired.MixedNext})
		case pool.VFs.Total == 0 && !slices.ContainsFunc(p.PFs, p.isWantedUnread):
			add(p.emptyPool(p.Spec.Pools[i]))
		}
	}
	return all
}

func (p picture) unmatchedProblem(r desired.PFRule) api.Problem {
	return api.Problem{
		Object: r.Want.From,
		Reason: fmt.Sprintf("no PF matches %s; there are %s", r, desired.JoinLabels(p.PFs)),
		Next:   "correct the entry; lspci shows whether the NIC is there at all",
	}
}

func (p picture) pfProblems(pf vf.PF) []api.Problem {
	var all []api.Problem
	add := func(next, format string, args ...any) {
		all = append(all, api.Problem{Object: "PF " + pf.Label(), Reason: fmt.Sprintf(format, args...), Next: next})
	}
	if l, leased := p.leaseOf(pf); leased { // the host cannot read it, and that is in order
		if _, wanted := p.Spec.ForPF(pf); wanted {
			add("take the PF out of the guest's definition (virsh edit "+l.Owner.Name+"), or out of host.yaml",
				"guest %s has it as a whole, so Culvert makes no VFs of it until that guest ends", l.Owner.Name)
		}
		return all
	}
	if pf.Err != "" { // what follows would compare facts that were not read
		add("what could be read is shown; culvertd reads it again within half a minute", "%s", pf.Err)
		return all
	}
	want, wanted := p.Spec.ForPF(pf)
	if !wanted {
		return all
	}
	if err := want.Check(pf); err != nil {
		_, reason := vf.SplitObject(err)
		add("correct "+want.From, "%s", reason)
		return all
	}
	fewer := pf.NumVFs != want.VFs
	if pf.Flapping && want.VFs > 0 {
		add(fmt.Sprintf("look at the cable, the transceiver and the switch port; no pod gets a VF of it until it has kept its carrier for %d s", int(vf.FlapPeriod.Seconds())),
			"%s", vf.DescribeFlapping())
	} else if !pf.Carrier && want.VFs > 0 {
		reason, next := "no carrier", "plug the cable in or look at the switch port"
		if fewer && want.NeedCarrier {
			reason = fmt.Sprintf("no carrier; %s wanted (%s), it has %d", vf.CountText(want.VFs), want.From, pf.NumVFs)
			next += "; the VFs are made once there is carrier (with needCarrier: false, without)"
			fewer = false
		}
		add(next, "%s", reason)
	}
	if fewer {
		add("culvertd makes them; if this stays, culvert events says what is in the way",
			"%s wanted (%s), it has %d", vf.CountText(want.VFs), want.From, pf.NumVFs)
	}
	if reason, next, ok := want.OtherMTU(pf); ok {
		add(next, "%s", reason)
	} else if want.ChangesMTU(pf) {
		add("culvertd sets it; if this stays, culvert events says what is in the way",
			"MTU %d wanted (%s), it is %d", want.MTU, want.From, pf.MTU)
	}
	return all
}

func (p picture) vfProblem(v api.VF) (api.Problem, bool) {
	problem := api.Problem{Object: "VF " + v.PCI.String(), Since: v.Since}
	what := fmt.Sprintf("vf %d of %s", v.Index, v.PF)
	show := "culvert vf show " + v.Name
	switch {
	case v.Phase == string(vf.PhaseQuarantined):
		problem.Reason = what + " is quarantined: " + v.Reason
		problem.Next = fmt.Sprintf("%s; %s", p.describeRetry(v), show)
	case v.Phase == string(vf.PhaseDamaged):
		problem.Reason = fmt.Sprintf("the ledger's record of %s is damaged: %s", what, v.Reason)
		problem.Next = "culvertd gives it to no owner; once the kernel shows that it is unused, culvertd takes it over again; culvert ledger check says more"
	case v.Unread:
		return problem, false // the PF reports it
	case v.Missing && v.Owner != nil:
		problem.Reason = fmt.Sprintf("%s is %s for %s, but it is not on the bus", what, v.Phase, *v.Owner)
		problem.Next = "the VFs of " + v.PF + " were removed outside Culvert: start the owner anew"
	case v.Missing:
		return problem, false // the count of its PF reports it
	case v.NoCarrier:
		problem.Since = time.Time{}
		problem.Reason = fmt.Sprintf("%s, which %s has, is up and has no carrier, although its PF has a link", what, v.Owner)
		problem.Next = "the PF does not answer the VF, or the NIC has the VF's port off: restart the owner; culvertd binds the VF's driver anew before the VF has another owner; " + show
	case v.Phase == api.PhaseOutside:
		problem.Since = time.Time{}
		problem.Reason = what + " is used outside Culvert: " + v.UsedBy
		problem.Next = "culvertd leaves it to that user and gives it to no other; it is reset when that use ends"
	case len(v.Differences) > 0 && (v.Phase == string(vf.PhaseFree) || v.Phase == string(vf.PhasePrepared)):
		problem.Since = time.Time{}
		problem.Reason = fmt.Sprintf("%s is %s, but %s", what, v.Phase, vf.Differences(v.Differences))
		problem.Next = "culvertd resets it before it is given out"
		if p.GivenUnknown {
			problem.Next = "the kubelet does not say whether a pod has it, so culvertd leaves it as it is until it does"
		}
	case len(v.Differences) > 0:
		problem.Since = time.Time{}
		problem.Reason = fmt.Sprintf("%s, which %s has: %s", what, v.Owner, vf.Differences(v.Differences))
		problem.Next = "changed outside Culvert: start the owner anew, or mend it by hand; " + show
	default:
		return problem, false
	}
	return problem, true
}

// isWantedUnread reports whether the host file wants VFs of a PF that could not be read. These VFs
// may be those of a pool that seems to be empty.
func (p picture) isWantedUnread(pf vf.PF) bool {
	_, wanted := p.Spec.ForPF(pf)
	return wanted && pf.Err != "" || isUnknown(pf) // also one that a guest has as a whole
}

// isUnknown reports whether nothing but a PF's place on the bus was ever read, so that any entry of
// the host file may be about this PF.
func isUnknown(pf vf.PF) bool { return pf.Err != "" && pf.Vendor == "" }

// describeRetry gives the time of culvertd's next try, rather than how long until then: the
// text must stay the same while nothing changes, since each change writes the NodeState.
func (p picture) describeRetry(v api.VF) string {
	times := "once"
	if v.Attempts != 1 {
		times = fmt.Sprintf("%d times", v.Attempts)
	}
	if v.NextRetry.IsZero() || v.NextRetry.Sub(p.Now) >= api.LongestRetry {
		return fmt.Sprintf("tried %s, again now", times)
	}
	return fmt.Sprintf("tried %s, again at %s", times, v.NextRetry.UTC().Format("2006-01-02 15:04:05 UTC"))
}

func (p picture) emptyPool(pool desired.Pool) api.Problem {
	problem := api.Problem{
		Object: "pool " + pool.FullName(),
		Reason: fmt.Sprintf("no VF of this host is in it (%s)", pool.From),
		Next:   "compare its selectors with culvert vf list -o wide",
	}
	var before, whole []string
	for _, pf := range p.PFs {
		if pool.SelectsPF(pf) {
			whole = append(whole, pf.Label())
		}
		for _, v := range pf.VFs {
			also := slices.ContainsFunc(p.Spec.Also(pf, v.ID.Index, v), func(q desired.Pool) bool { return q.FullName() == pool.FullName() })
			if !also {
				continue
			}
			first, _ := p.Spec.PoolOf(pf, v.ID.Index, v)
			if !slices.Contains(before, first.FullName()) {
				before = append(before, first.FullName())
			}
		}
	}
	switch {
	case len(before) > 0:
		problem.Reason = fmt.Sprintf("its VFs are all in %s, which stands before it (%s)", strings.Join(before, ", "), pool.From)
		problem.Next = `cut them by VF index, e.g. pfNames: ["enp1s0f0#0-3"], or put the pool first`
	case len(whole) > 0:
		problem.Reason = fmt.Sprintf("it stays empty: it selects PFs (%s), which the device plugin gives out while they have no VFs, and Culvert gives out VFs only (%s)", strings.Join(whole, ", "), pool.From)
		problem.Next = "select VFs, by their own device ID or driver, or serve PFs by other means"
	}
	return problem
}
