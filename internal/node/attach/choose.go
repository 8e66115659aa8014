package attach

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/culvert-net/culvert/internal/keylock"
	"github.com/culvert-net/culvert/internal/node/alloc"
	"github.com/culvert-net/culvert/internal/node/attach/lease"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// chooseVFs chooses the VFs of a request and locks them. It adds the busy VFs that it meets to busy.
func (e *Engine) chooseVFs(req Request, busy map[vf.ID]*keylock.Work, given func(vf.PCIAddr) string) (got reservation, err error) {
	e.choosing.Lock() // two bonds would each lock a VF that the other wants
	defer e.choosing.Unlock()
	err = e.vfs.Ledger.View(func(tx *journal.Tx) error {
		if req.Bond != nil {
			got, err = e.chooseMembers(tx, e.sortVFs(req), busy, given)
		} else {
			got, err = e.chooseOne(tx, req, busy, given)
		}
		return err
	})
	if err != nil {
		got.unlockAll()
	}
	return got, err
}

// chooseOne chooses one VF and locks it.
func (e *Engine) chooseOne(tx *journal.Tx, req Request, busy map[vf.ID]*keylock.Work, given func(vf.PCIAddr) string) (got reservation, err error) {
	seen := map[vf.PCIAddr]string{}
	choice, err := e.chooseWithFreeMAC(tx, req, busy, rememberGiven(given, seen))
	if err != nil {
		return got, err
	}
	unlock, other := e.vfs.Locks.TryLock(choice.Record.ID, "the attach to "+req.Owner.String())
	if other != nil {
		busy[choice.Record.ID] = other
		return got, errBusy
	}
	return reservation{choice: choice, given: seen[choice.Record.PCI], rec: choice.Record, at: lease.SiteOf(choice.PF, choice.Record), unlock: unlock}, nil
}

// rememberGiven returns given with the answers that seen has, and puts new answers there: the kubelet
// may take a VF while an attach chooses one.
func rememberGiven(given func(vf.PCIAddr) string, seen map[vf.PCIAddr]string) func(vf.PCIAddr) string {
	if given == nil {
		return nil
	}
	return func(a vf.PCIAddr) string {
		if _, isKnown := seen[a]; !isKnown {
			seen[a] = given(a)
		}
		return seen[a]
	}
}

// chooseWithFreeMAC chooses a VF whose MAC address is not in use (I9). If the request names
// neither a VF nor a MAC address, it passes over VFs whose own MAC address is in use.
func (e *Engine) chooseWithFreeMAC(tx *journal.Tx, req Request, busy map[vf.ID]*keylock.Work, given func(vf.PCIAddr) string) (alloc.Choice, error) {
	var inUse error
	except := maps.Clone(busy)
	for id := range req.passed {
		except[id] = nil
	}
	for {
		choice, err := e.chooseVF(tx, req, except, given)
		if err != nil {
			return choice, cmp.Or(inUse, err)
		}
		n := e.addresses.neighboursOf(tx, choice, req)
		n.allRecords = recordsWithMembers(tx, req)
		err = n.checkMAC(req.Spec, choice.Record.Baseline)
		if err == nil || req.Spec.MAC != nil || !req.VF.IsZero() {
			return choice, err
		}
		inUse, except[choice.Record.ID] = err, nil
	}
}

// recordsWithMembers returns the ledger's records. In them, the owner of a bond has the members that
// are chosen already.
func recordsWithMembers(tx *journal.Tx, req Request) []journal.Record {
	if len(req.members) == 0 {
		return tx.Records()
	}
	records := slices.Clone(tx.Records())
	for i := range records {
		if slices.Contains(req.members, records[i].ID) {
			records[i].Phase, records[i].Lease.Owner = vf.PhaseConfiguring, req.Owner
		}
	}
	return records
}

// chooseVF chooses a free VF that is not among the keys of except.
func (e *Engine) chooseVF(tx *journal.Tx, req Request, except map[vf.ID]*keylock.Work, given func(vf.PCIAddr) string) (alloc.Choice, error) {
	records := recordsWithMembers(tx, req)
	if err := e.checkTwins(records, req); err != nil {
		return alloc.Choice{}, err
	}
	want := alloc.Want{
		VF: req.VF, Pool: req.Pool, For: req.Owner, PodUID: req.PodUID, Network: req.Network, MAC: req.Spec.MAC, Given: given,
		Bond: req.Bond, Members: req.members, OfPod: req.ofPod, Segment: req.Segment,
	}
	var err error
	if want.Apart, err = apartFrom(records, req); err != nil {
		return alloc.Choice{}, err
	}
	host := alloc.Host{PFs: e.vfs.Hardware.PFs(), Records: slices.DeleteFunc(records, func(r journal.Record) bool { _, out := except[r.ID]; return out }), Spec: e.vfs.Spec(), IsDark: e.vfs.IsDark}
	choice, err := alloc.Choose(host, want)
	if err != nil {
		return choice, err
	}
	return choice, choice.PF.Fits(req.specOn(choice.PF), choice.Record.Baseline.Admin, host.Spec.WhereDeclared(choice.PF))
}

// apartFrom returns the VF of the interface that the request names in Apart. The new VF must be
// on another PF.
func apartFrom(records []journal.Record, req Request) (vf.ID, error) {
	if req.Apart == "" {
		return vf.ID{}, nil
	}
	other := req.Owner
	other.Interface = req.Apart
	for _, r := range records {
		if r.Phase == vf.PhaseAttached && lease.SameAttachment(r.Lease.Owner, other) {
			return r.ID, nil
		}
	}
	return vf.ID{}, fmt.Errorf("a VF apart from %s of %s: %w: that one has no VF", req.Apart, req.Owner, vf.ErrInvalid)
}
