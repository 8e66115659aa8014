package attach

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// mendsDrift reports whether culvertd repairs the drift of a VF, which the pool's key drift
// decides. After a call for the VF hung, culvertd only reports drift for hangPause. It also only
// reports drift while the VF may be in a pool that it does not know yet.
func (e *Engine) mendsDrift(rec journal.Record) bool {
	if e.hungOfLate(rec) {
		return false
	}
	spec := e.Spec()
	pool, err := spec.Pool(rec.Lease.Pool)
	if err != nil {
		return !spec.Partial
	}
	return pool.Drift != desired.ReportDrift
}

// mendLink repairs the interface of an attached VF in its owner's netns, after a reset of its PF.
// The owner's own changes stay. It emits an event with the differences that it has repaired. If the
// remaining differences are news, it emits another event with these, which only a restart of the
// pod removes. It returns the state that it has read last.
func (e *Engine) mendLink(ctx context.Context, at site, rec journal.Record, st vf.State, last *podLink) (vf.State, error) {
	broken := without(linkDrift(rec, st), last.own)
	if len(broken) == 0 {
		last.left = ""
		return st, nil
	}
	failed := e.mendSteps(ctx, rec, interfaceSteps(at.place, rec, broken))
	now, err := e.readVF(ctx, rec)
	if err != nil || now.Link == nil {
		return st, errors.Join(failed, err)
	}
	if !errors.Is(failed, vf.ErrTimeout) {
		failed = errors.Join(failed, e.mendSteps(ctx, rec, missingSteps(at.place, rec, *now.Link, broken, last.own)))
		if now, err = e.readVF(ctx, rec); err != nil {
			return st, errors.Join(failed, err)
		}
	}
	left := slices.DeleteFunc(linkDrift(rec, now), func(d vf.Difference) bool { return len(without([]vf.Difference{d}, broken)) > 0 })
	var events []journal.Event
	if done := without(broken, left); len(done) > 0 {
		events = append(events, e.driftEvent(at, rec, "DriftMended", done))
		if now.Link != nil {
			e.announceAddresses(ctx, at, withAddresses(rec, now.Link.Addrs))
		}
	}
	before := last.left
	if last.left = vf.Differences(left); len(left) > 0 && last.left != before {
		events = append(events, e.driftEvent(at, rec, "Drifted", left))
		e.reportUnmended(rec, left)
		e.Log.Warn("mend the interface of a pod", "vf", rec.ID, "owner", rec.Lease.Owner, "left", last.left, "err", failed)
	}
	return now, e.Ledger.Update(func(tx *journal.Tx) error {
		var errs []error
		for _, ev := range events {
			errs = append(errs, tx.Event(ev))
		}
		return errors.Join(errs...)
	})
}

// interfaceSteps returns the steps that repair the MAC address, MTU and admin state of an
// interface. They do not set the interface down before they set its MAC address: VF drivers accept
// the change on an interface that is up.
func interfaceSteps(p place, rec journal.Record, broken []vf.Difference) (out []step.Step) {
	w, ns := rec.Lease.Wanted, rec.Lease.Netns
	for _, d := range broken {
		switch d.Attribute {
		case "link mac":
			out = append(out, step.SetLinkMAC{VF: p.pci, Netns: ns, MAC: rec.Lease.LinkMAC})
		case "mtu":
			mtu := rec.Baseline.MTU
			if w.MTU != nil {
				mtu = *w.MTU
			}
			out = append(out, step.SetMTU{VF: p.pci, Netns: ns, MTU: mtu})
		case "up":
			out = append(out, step.SetUp{VF: p.pci, Netns: ns, Up: true})
		}
	}
	return out
}

// withAddresses returns a record without the addresses of its lease that are not in addrs.
func withAddresses(rec journal.Record, addrs []netip.Prefix) journal.Record {
	rec.Lease.Wanted.Addresses = slices.DeleteFunc(slices.Clone(rec.Lease.Wanted.Addresses), func(a vf.Address) bool {
		return !slices.Contains(addrs, a.Prefix)
	})
	return rec
}

// missingSteps returns the steps that add the addresses and routes of a lease that are missing. An
// interface that was down has lost its routes, and its addresses of IPv6. It does not add those
// that the owner had removed before, which are in own. There are no such steps for a member of a
// bond, which keeps its addresses and routes.
func missingSteps(p place, rec journal.Record, l vf.Link, broken, own []vf.Difference) (out []step.Step) {
	if rec.Lease.Bond != nil {
		return nil
	}
	wasDown := slices.ContainsFunc(broken, func(d vf.Difference) bool { return d.Attribute == "up" })
	isIn := func(all []vf.Difference, attribute, want string) bool {
		return slices.ContainsFunc(all, func(d vf.Difference) bool { return d.Attribute == attribute && d.Want == want })
	}
	isBroken := func(attribute, want string) bool {
		return isIn(broken, attribute, want) || wasDown && !isIn(own, attribute, want)
	}
	for _, s := range addressSteps(p, rec, false) {
		switch s := s.(type) {
		case step.AddAddress:
			if !slices.Contains(l.Addrs, s.Address) && isBroken("address", s.Address.String()) {
				out = append(out, s)
			}
		case step.AddRoute:
			if !s.Route.IsIn(l.Routes) && isBroken("route", s.Route.String()) {
				out = append(out, s)
			}
		}
	}
	return out
}
