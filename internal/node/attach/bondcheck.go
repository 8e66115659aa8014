package attach

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// checkBond is Check for a bond, of which rec is one member. It returns an error unless all VFs of
// the bond exist and are as their leases and the request want them.
func (e *Engine) checkBond(ctx context.Context, rec journal.Record, req Request) error {
	records, err := e.vfs.ReadRecords()
	if err != nil {
		return err
	}
	owner, members := rec.Lease.Owner, lease.BondMembers(records, rec)
	var wrong []string
	if have, want := len(members), rec.Lease.Bond.Links; have != want {
		wrong = append(wrong, fmt.Sprintf("it has %d of %d VFs", have, want))
	}
	macs := map[vf.MAC]bool{} // those that the bond may have
	if req.LinkMAC != nil {
		macs[*req.LinkMAC] = true
	}
	var bond *vf.BondState
	for _, m := range members {
		if m.Phase != vf.PhaseAttached {
			return fmt.Errorf("%s has no VF as %s: %w in the ledger: VF %s is %s", owner, owner.Interface, vf.ErrNotFound, m.PCI, m.Phase)
		}
		st, err := e.vfs.ReadGuarded(ctx, m)
		if err != nil {
			return fmt.Errorf("VF %s of %s: read back: %w", m.PCI, owner, err)
		}
		if d := req.memberDiff(m, st); len(d) > 0 {
			wrong = append(wrong, fmt.Sprintf("VF %s: %s", m.PCI, vf.Differences(d)))
		}
		macs[m.Lease.LinkMAC] = true
		if st.Link != nil && st.Link.Bond != nil {
			bond = st.Link.Bond
		}
	}
	if bond != nil && !macs[bond.Link.MAC] {
		wrong = append(wrong, fmt.Sprintf("its MAC address is %s, which no member has", bond.Link.MAC))
	}
	if len(wrong) > 0 {
		return fmt.Errorf("bond %s of %s: %s: delete and add the attachment again, or mend it by hand", owner.Interface, owner, strings.Join(wrong, "; "))
	}
	return nil
}

// memberDiff lists the differences of a member of a bond from its lease and from the request for
// the whole bond.
func (r Request) memberDiff(m journal.Record, st vf.State) []vf.Difference {
	d := lease.Diff(m, st)
	if r.Spec.Interface == "" {
		return d
	}
	w := r.Spec
	w.Interface = m.Lease.Wanted.Interface
	if w.MTU == nil {
		w.MTU = m.Lease.Wanted.MTU
	}
	if w.MAC == nil {
		w.MAC = m.Lease.Wanted.MAC
	}
	for _, more := range lease.SpecDiff(w, m, lease.WithoutGuard(st)) {
		if !slices.Contains(d, more) {
			d = append(d, more)
		}
	}
	return slices.DeleteFunc(d, r.mayHaveChanged)
}
