package membership

import (
	"errors"
	"slices"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// keepGrants writes the node's grants into the ledger, before the NodeState requests blocks under
// an ID or gives addresses back. It does not write if no grant has changed.
func (m *Member) keepGrants(n api.NodeStatus, now time.Time) error {
	var had, kept []blocks.Kept
	plan := func(tx *journal.Tx) {
		l := ledgerOf(tx)
		l.Strangers = hasStrangers(n)
		had, kept = l.Grants, m.book.Keep(l, now)
	}
	if err := m.Node.Ledger.ViewLatest(func(tx *journal.Tx) error { plan(tx); return nil }); err != nil {
		return err
	}
	if slices.EqualFunc(had, kept, sameGrant) {
		m.grants = kept
		return nil
	}
	err := m.Node.Ledger.Update(func(tx *journal.Tx) error {
		plan(tx)
		var errs []error
		for _, g := range withoutGrants(had, kept) {
			errs = append(errs, tx.DeleteGrant(storedGrant(g)))
		}
		for _, g := range withoutGrants(kept, had) {
			errs = append(errs, tx.PutGrant(storedGrant(g)))
		}
		return errors.Join(errs...)
	})
	if err == nil {
		m.grants = kept
	}
	return err
}

// withoutGrants returns the grants that are not among others.
func withoutGrants(grants, others []blocks.Kept) []blocks.Kept {
	return slices.DeleteFunc(slices.Clone(grants), func(g blocks.Kept) bool {
		return slices.ContainsFunc(others, func(o blocks.Kept) bool { return sameGrant(g, o) })
	})
}

// hasStrangers reports whether VFs that are not in the ledger may be in use: VFs that Culvert has
// not taken over, VFs of a PF that culvertd cannot read now, and all VFs before the node is ready.
// Only PFs of which Culvert makes VFs count, and PFs that were never read, which may be such.
func hasStrangers(n api.NodeStatus) bool {
	return !n.Ready || slices.ContainsFunc(n.VFs, func(v api.VF) bool { return v.Phase == api.PhaseUnmanaged }) ||
		slices.ContainsFunc(n.PFs, func(pf api.PF) bool { return pf.Err != "" && (pf.WantedVFs != nil || pf.Vendor == "") })
}

func sameGrant(a, b blocks.Kept) bool {
	return a.Network == b.Network && a.ID == b.ID && slices.Equal(a.Runs, b.Runs)
}

func storedGrant(k blocks.Kept) journal.Grant {
	g := journal.Grant{Network: k.Network, ID: k.ID}
	for _, r := range k.Runs {
		g.Runs = append(g.Runs, journal.AddressRun(r))
	}
	return g
}

// ledgerOf returns the part of the ledger that is about addresses.
func ledgerOf(tx *journal.Tx) (l blocks.Ledger) {
	l.Grants = keptGrants(tx.Grants(""))
	l.Held = heldAddresses(tx)
	damaged := func(r journal.Record) bool { return r.Phase == vf.PhaseDamaged }
	l.Partial = tx.UnreadAddresses() > 0 || slices.ContainsFunc(tx.Records(), damaged)
	return l
}

func keptGrants(all []journal.Grant) (out []blocks.Kept) {
	for _, g := range all {
		k := blocks.Kept{Network: g.Network, Grant: ipam.Grant{ID: g.ID}}
		for _, r := range g.Runs {
			k.Runs = append(k.Runs, ipam.Run(r))
		}
		out = append(out, k)
	}
	return out
}
