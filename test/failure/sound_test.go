package failure

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/node/status/pick"
	"github.com/culvert-net/culvert/internal/vf"
)

// sound reports each violation of the invariants by the machine and the ledger,
// between two calls. It trusts neither the engine nor the engine's answers.
func (w *world) sound() {
	w.t.Helper()
	records := w.records()
	var addresses []journal.Address
	err := w.ledger.View(func(tx *journal.Tx) error {
		addresses = tx.AddressesOf("")
		return nil
	})
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	for _, p := range journal.Verify(records, addresses) {
		w.t.Errorf("ledger: %s", p)
	}
	w.owned(records)
	w.promised(records)
	w.claimed(records)
	w.addressed()
	w.sandboxed()
}

// owned checks I1: a VF that is in the netns of a pod has that owner in the
// ledger.
func (w *world) owned(records []journal.Record) {
	w.t.Helper()
	for _, v := range w.vfs() {
		ns := w.whereIs(v)
		if ns == "" || w.dirty[v.PCI] {
			continue
		}
		i := slices.IndexFunc(records, func(r journal.Record) bool { return r.ID == v.ID })
		switch {
		case i < 0:
			w.t.Errorf("I1: VF %s is in %s and not in the ledger", v.PCI, ns)
		case records[i].IsIdle() || records[i].Phase == vf.PhaseMaking:
			w.t.Errorf("I1: VF %s is in %s and %s in the ledger", v.PCI, ns, records[i].Phase)
		case records[i].Phase == vf.PhaseAttached && records[i].Lease.Netns != ns:
			w.t.Errorf("I1: VF %s is in %s and leased to %s", v.PCI, ns, records[i].Lease.Netns)
		}
	}
}

// promised checks I6: an attachment that culvertd answered with success has its
// VF, and an attachment that has ended or failed has none.
func (w *world) promised(records []journal.Record) {
	w.t.Helper()
	has := map[string][]journal.Record{}
	for _, r := range records {
		pod := r.Lease.Owner.UID
		if pod == "" || r.Phase == vf.PhaseQuarantined || r.Phase == vf.PhaseReleasing {
			continue // the pod no longer has it
		}
		for _, other := range has[pod] {
			if !r.IsMemberWith(other) || r.ID.PF == other.ID.PF {
				w.t.Errorf("I1: %s has two VFs, %s and %s", pod, other.PCI, r.PCI)
			}
		}
		has[pod] = append(has[pod], r)
	}
	for _, pod := range owners() {
		switch w.expect[pod] {
		case absent:
			for _, r := range has[pod] {
				if r.Phase == vf.PhaseAttached {
					w.t.Errorf("I6: %s has VF %s, and nobody was told", pod, r.PCI)
				}
			}
		case present:
			w.given(pod, has[pod])
		case either, meddled:
		}
	}
}

// given checks I6: a pod has the VF that culvertd gave it, or all VFs of its
// bond.
func (w *world) given(pod string, records []journal.Record) {
	w.t.Helper()
	if len(records) == 0 || records[0].Lease.Bond != nil && len(records) != records[0].Lease.Bond.Links {
		w.t.Errorf("I6: %s was given VFs and has %d", pod, len(records))
	}
	for _, r := range records {
		if r.Phase != vf.PhaseAttached {
			w.t.Errorf("I6: %s was given VF %s, and it is %s", pod, r.PCI, r.Phase)
		} else if d := w.lacks(r); d != "" {
			w.t.Errorf("I6: VF %s of %s: %s", r.PCI, pod, d)
		}
	}
}

// lacks returns how the kernel's state differs from a lease.
func (w *world) lacks(r journal.Record) string {
	st, err := w.k.VF(context.Background(), r.PCI, r.Lease.Netns)
	if err != nil {
		return err.Error()
	}
	if st.Link != nil && st.Link.Netns != "" {
		g, err := w.k.Guard(context.Background(), r.PCI, r.Lease.Netns)
		if err != nil {
			return err.Error()
		}
		st.Link.Guard = &g
	}
	return vf.Differences(lease.Diff(r, st))
}

// mayRemake checks I5: culvertd never writes the number of VFs while a VF of
// the PF has an owner.
func (w *world) mayRemake(s step.SetNumVFs) {
	w.t.Helper()
	for _, r := range w.records() {
		if st, err := w.k.VF(context.Background(), r.PCI, ""); err == nil && st.ID == r.ID && w.pfOf(r.ID) == s.PF && r.Held() {
			w.t.Errorf("I5: %s while %s has VF %s", s, r.Lease.Owner, r.PCI)
		}
	}
}

// addressed checks I4: no two netdevices have one address.
func (w *world) addressed() {
	w.t.Helper()
	seen := map[string]string{}
	note := func(a, device string) {
		if other, twice := seen[a]; twice && other != device {
			w.t.Errorf("I4: %s is on %s and on %s", a, device, other)
		}
		seen[a] = device
	}
	for _, v := range w.vfs() {
		for _, ns := range append(w.k.Netns(), "") {
			st, err := w.k.VF(context.Background(), v.PCI, ns)
			if err != nil || st.Link == nil || st.Link.Netns != ns {
				continue
			}
			for _, a := range st.Link.Addrs {
				note(a.String(), "VF "+v.PCI.String())
			}
			if b := st.Link.Bond; b != nil {
				for _, a := range b.Link.Addrs {
					note(a.String(), "bond "+b.Link.Name+" in "+ns)
				}
			}
		}
	}
}

// clean checks I2 and I3: every free VF is as it was when it was made.
func (w *world) clean() {
	w.t.Helper()
	for _, r := range w.records() {
		if !r.IsIdle() || w.dirty[r.PCI] {
			continue
		}
		if want, ok := w.pristine[r.ID]; ok && withoutXPS(want) != withoutXPS(r.Baseline) {
			w.t.Errorf("I2: the baseline of VF %s has become %+v, it was %+v", r.PCI, r.Baseline, want)
		}
		st, err := w.k.VF(context.Background(), r.PCI, "")
		if errors.Is(err, vf.ErrNotFound) {
			continue // it is gone from the bus, so no owner gets it; settled counts the VFs
		}
		if err != nil {
			w.t.Errorf("free VF %s: %v", r.PCI, err)
			continue
		}
		if d := r.Baseline.Diff(st); len(d) > 0 {
			w.t.Errorf("I2: free VF %s: %s", r.PCI, vf.Differences(d))
		}
		if left := w.k.ChangedAttributes(r.PCI); left != "" {
			w.t.Errorf("I2: free VF %s has what its owner set:%s", r.PCI, left)
		}
	}
}

// settled calls sound and clean, and checks that no VF is under way or in
// quarantine.
func (w *world) settled() {
	w.t.Helper()
	w.sound()
	w.clean()
	for _, r := range w.records() {
		if r.Phase != vf.PhaseAttached && !r.IsIdle() {
			w.t.Errorf("VF %s is %s, and nobody works on it: %s", r.PCI, r.Phase, r.Reason)
		}
		if r.Lease.Lent != nil {
			w.t.Errorf("VF %s has a rate that was lent: %+v", r.PCI, *r.Lease.Lent)
		}
		if r.Lease.Withdrawn != nil {
			w.t.Errorf("VF %s of %s has no guard: %+v", r.PCI, r.Lease.Owner, *r.Lease.Withdrawn)
		}
	}
	if got := len(w.records()); w.pristine != nil && got != len(w.vfs()) {
		w.t.Errorf("%d VFs, and %d of them in the ledger", len(w.vfs()), got)
	}
	w.hasTrueHistory()
}

// hasTrueHistory checks that the history, which the events of the ledger are, ends for each VF with the
// owner that its record has.
func (w *world) hasTrueHistory() {
	w.t.Helper()
	var events []api.Event
	must(w, w.ledger.View(func(tx *journal.Tx) error {
		for i, e := range tx.Events(0) {
			events = append(events, api.Event(e))
			if e.Seq != events[0].Seq+uint64(i) {
				w.t.Errorf("event %d is the %d. of the history, which begins with %d", e.Seq, i+1, events[0].Seq)
			}
		}
		return nil
	}))
	has := map[vf.ID]vf.Owner{}
	for _, s := range (pick.History{}).MakeSpans(api.NodeStatus{}, events) {
		if s.To.IsZero() {
			has[s.VF] = s.Owner
		}
	}
	for _, r := range w.records() {
		if has[r.ID] != r.OwnerOrClaim() {
			w.t.Errorf("VF %s is %s: its record names the owner %q, its history %q", r.PCI, r.Phase, r.OwnerOrClaim(), has[r.ID])
		}
	}
}

// asNew detaches all owners, and checks that the machine is settled and as it
// was at first.
func (w *world) asNew() {
	w.t.Helper()
	for _, pod := range owners() {
		if err := w.del(attachment{pod: pod, pool: "net"}); err != nil {
			w.t.Errorf("DEL of %s: %v", pod, err)
		}
	}
	w.endClaims()
	w.gone()
	w.rest() // a DEL quarantines a VF for which a call hung while it was attached, until the retry
	w.settled()
	if got := w.k.String(); got != w.whole {
		w.t.Errorf("I2: when all was given back the machine was\n%s, at first it was\n%s", got, w.whole)
	}
}

func (w *world) vfs() (all []vf.State) {
	pfs, err := w.k.PFs(context.Background())
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	for _, pf := range pfs {
		all = append(all, pf.VFs...)
	}
	return all
}

// pfOf is the address of a VF's PF.
func (w *world) pfOf(id vf.ID) vf.PCIAddr {
	pfs, err := w.k.PFs(context.Background())
	must(w, err)
	for _, pf := range pfs {
		if pf.ID == id.PF {
			return pf.PCI
		}
	}
	return vf.PCIAddr{}
}

// whereIs finds the netns of a VF's netdevice; empty for the host's, or when it
// has none.
func (w *world) whereIs(v vf.State) string {
	for _, ns := range w.k.Netns() {
		if st, err := w.k.VF(context.Background(), v.PCI, ns); err == nil && st.Link != nil {
			return st.Link.Netns
		}
	}
	return ""
}

// describe says how a world came to where it is, for messages.
func (w *world) describe() string {
	s := fmt.Sprintf("killed at: %q\n%s", w.gate.killed(), w.k)
	for _, r := range w.records() {
		s += fmt.Sprintf("%s %s gen %d owner %s netns %s reason %s\n", r.PCI, r.Phase, r.Generation, r.Lease.Owner, r.Lease.Netns, r.Reason)
	}
	return s
}
