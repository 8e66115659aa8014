package attach

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/culvert-net/culvert/internal/keylock"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// chooseMembers chooses all VFs of a bond by chooseOne. After an error, got has those that are locked.
func (e *Engine) chooseMembers(tx *journal.Tx, req Request, busy map[vf.ID]*keylock.Work, given func(vf.PCIAddr) string) (got reservation, err error) {
	for i := range req.Bond.Links {
		one, err := e.chooseOne(tx, memberRequest(req, got, i, given), busy, given)
		if err != nil {
			return got, err
		}
		if i == 0 {
			got = one
		} else {
			got.others = append(got.others, one)
		}
	}
	return got, nil
}

// sortVFs sorts the VFs that the request names, so that those on the primary PF come first.
func (e *Engine) sortVFs(req Request) Request {
	if req.Bond.Primary == "" || len(req.VFs) == 0 {
		return req
	}
	elsewhere := map[vf.PCIAddr]int{}
	for _, pf := range e.vfs.Hardware.PFs() {
		for _, v := range pf.VFs {
			if !req.Bond.PrefersPF(pf) {
				elsewhere[v.PCI] = 1
			}
		}
	}
	req.VFs = slices.SortedStableFunc(slices.Values(req.VFs), func(a, b vf.PCIAddr) int { return cmp.Compare(elsewhere[a], elsewhere[b]) })
	req.VF = req.VFs[0]
	return req
}

// memberRequest returns the request for the VF of a bond with this index. got has the VFs before
// it. The first VF holds the addresses and the configuration. If the bond does not change its MAC address at a fail-over,
// all members get the address of the first VF.
func memberRequest(req Request, got reservation, index int, given func(vf.PCIAddr) string) Request {
	m := req
	m.Spec.Interface = vf.MemberName(req.Owner.Interface, index)
	if index == 0 {
		return m
	}
	m.IPAM, m.Addresses, m.Late, m.Delegation, m.Raw, m.VF = ipam.Config{}, nil, nil, nil, nil, vf.PCIAddr{}
	first := got.choice
	for _, one := range got.all() {
		m.members = append(m.members, one.rec.ID)
	}
	if index < len(req.VFs) {
		m.VF = req.VFs[index]
	} else {
		m.Pool = cmp.Or(m.Pool, first.Pool)
		m.ofPod = !req.VF.IsZero() && given != nil && given(req.VF) != "" && req.Owner.Kind == vf.OwnerPod
	}
	if mac := first.Record.Baseline.Admin.MAC; m.Spec.MAC == nil && !req.Bond.HasFailOverMAC() && first.Driver != vf.DriverVFIO {
		m.Spec.MAC = &mac
	}
	return m
}

// completeLeases sets the values that the leases of a bond's VFs share: the mark and the MTU. The
// MTU is the wanted one, or else the smallest MTU of the VFs. completeLeases refuses a bond that
// mixes VFs for the kernel and VFs for user space.
func completeLeases(tx *journal.Tx, got *reservation, req Request) error {
	first := got.rec
	mark := fmt.Sprintf("%s/%s@%d", req.Owner.UID, first.ID, first.Generation)
	mtu := req.Spec.MTU
	for _, one := range got.all() {
		if one.rec.Lease.Wanted.Driver != first.Lease.Wanted.Driver {
			return fmt.Errorf("bond %s of %s: VF %s is for user space (%s) and another one is not: %w: give the bond a pool with one deviceType",
				req.Owner.Interface, req.Owner, one.rec.PCI, vf.DriverVFIO, vf.ErrInvalid)
		}
		if own := one.rec.Baseline.MTU; req.Spec.MTU == nil && own != 0 && (mtu == nil || own < *mtu) {
			mtu = &own
		}
	}
	pinned := bondAddresses(got.all())
	complete := func(r *journal.Record) error {
		r.Lease.BondMark = mark
		if r.Lease.Wanted.Guard != "" {
			r.Lease.Wanted.GuardAddresses = pinned
		}
		if r.Lease.Wanted.Driver != vf.DriverVFIO {
			r.Lease.Wanted.MTU = mtu
		}
		return tx.Put(*r)
	}
	errs := []error{complete(&got.rec)}
	for i := range got.others {
		errs = append(errs, complete(&got.others[i].rec))
	}
	return errors.Join(errs...)
}
