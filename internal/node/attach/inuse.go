package attach

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/culvert-net/culvert/internal/node/alloc"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// neighbours has the other PFs and VFs of the host when a VF is about to get a lease. Their MAC
// and IP addresses must not be in that lease (I9). The owner's other VFs do not count: a bond has
// one MAC address on all its members.
type neighbours struct {
	tx     *journal.Tx
	pfs    []vf.PF
	spec   func() desired.Spec
	pf     vf.PFID // of the VF
	label  string  // of that PF, for errors
	id     vf.ID   // of the VF
	vlan   vf.VLAN // of the lease
	owner  vf.Owner
	podUID string // of the owner's pod; empty where it is not known

	// Both are made when they are needed, since a node may have hundreds of records.
	allRecords []journal.Record
	segment    map[vf.PFID]bool // of the VF
}

func (p *addresses) neighboursOf(tx *journal.Tx, choice alloc.Choice, req Request) *neighbours {
	return &neighbours{
		tx: tx, pfs: p.vfs.Hardware.PFs(), spec: p.vfs.Spec, pf: choice.PF.ID, label: choice.PF.Label(), id: choice.Record.ID,
		vlan: req.Spec.VLANOver(choice.Record.Baseline.Admin), owner: req.Owner, podUID: req.PodUID,
	}
}

// records returns the ledger's records.
func (n *neighbours) records() []journal.Record {
	if n.allRecords == nil {
		n.allRecords = n.tx.Records()
	}
	return n.allRecords
}

// checkMAC refuses a lease whose MAC address is in use on the VF's segment and VLAN. A PF's MAC
// address, and a VF's own MAC address, count as in use on every VLAN. The error wraps vf.ErrHeld
// and names the holder.
func (n *neighbours) checkMAC(spec vf.Spec, b vf.Baseline) error {
	mac := cmp.Or(spec.Over(b.Admin).MAC, b.LinkMAC)
	if mac.IsZero() {
		return nil
	}
	holder := n.leaseWithMAC(mac)
	if holder == "" && spec.MAC != nil {
		holder = n.deviceWithMAC(mac)
	}
	if holder == "" {
		return nil
	}
	return fmt.Errorf("MAC address %s: %w by %s on the segment of PF %s, wanted for %s: ask for another one", mac, vf.ErrHeld, holder, n.label, n.owner)
}

// leaseWithMAC names the owner of another lease that has a MAC address, or the VF whose own
// address it is.
func (n *neighbours) leaseWithMAC(mac vf.MAC) string {
	for _, r := range n.records() {
		leased := n.reachesVLAN(r) && slices.Contains([]vf.MAC{r.Lease.Wanted.Over(vf.Admin{}).MAC, r.Lease.Effective.MAC, r.Lease.LinkMAC}, mac)
		own := mac == r.Baseline.Admin.MAC || mac == r.Baseline.LinkMAC
		switch {
		case !leased && !own, r.ID == n.id, n.isOwners(r.Lease), !n.onSegment(r.ID.PF):
		case r.Lease.Owner.IsZero():
			return fmt.Sprintf("VF %s, whose own it is", r.PCI)
		case r.Phase == vf.PhaseQuarantined:
			return fmt.Sprintf("VF %s, in quarantine since %s had it (culvert vf show %s)", r.PCI, r.Holder(), r.PCI)
		default:
			return r.Holder()
		}
	}
	return ""
}

// deviceWithMAC names the PF that has a MAC address, or a VF that has no record and has the
// address, or will have it when Culvert makes the VF.
func (n *neighbours) deviceWithMAC(mac vf.MAC) string {
	recorded := map[vf.ID]bool{n.id: true}
	for _, r := range n.records() {
		recorded[r.ID] = recorded[r.ID] || r.Phase != vf.PhaseDamaged
	}
	for _, pf := range n.pfs {
		if !n.onSegment(pf.ID) {
			continue
		}
		if mac == pf.MAC || mac == pf.ID.MAC {
			return fmt.Sprintf("PF %s, whose own it is", pf.Label())
		}
		for _, v := range pf.VFs {
			if !recorded[v.ID] && (mac == v.Admin.MAC || v.Link != nil && mac == v.Link.MAC) {
				return "VF " + v.PCI.String()
			}
		}
		for i := range pf.TotalVFs {
			if !recorded[vf.ID{PF: pf.ID, Index: i}] && mac == vf.StableMAC(pf.ID, i) {
				return fmt.Sprintf("VF %d of PF %s, whose own it is", i, pf.Label())
			}
		}
	}
	return ""
}

// linkLocalHolder names the holder of the MAC address of which the kernel makes a link-local address
// of IPv6, and is empty for other addresses.
func (n *neighbours) linkLocalHolder(a netip.Addr) string {
	mac, is := vf.MACOfLinkLocal(a)
	if !is {
		return ""
	}
	if name := n.leaseWithMAC(mac); name != "" {
		return name
	}
	return n.deviceWithMAC(mac)
}

// heldAddresses returns the addresses that are in use on the VF's segment and VLAN, with their
// holders. These are the addresses of other leases, from any pool of addresses, and those of the
// host's PFs and of the bonds and bridges above, which are on no VLAN.
func (n *neighbours) heldAddresses(all []journal.Address) map[netip.Addr]vf.Owner {
	held := map[netip.Addr]vf.Owner{}
	if len(all) > 0 {
		shares := map[vf.ID]bool{}
		for _, r := range n.records() {
			shares[r.ID] = n.sharesVLAN(r) && n.onSegment(r.ID.PF) && !n.isOwners(r.Lease)
		}
		for _, a := range all {
			if shared, known := shares[a.VF]; (shared || !known) && !n.isOwners(journal.Lease{Owner: a.Owner}) {
				held[a.Addr] = a.Owner
			}
		}
	}
	for _, pf := range n.pfs {
		if n.vlan.ID == 0 && n.onSegment(pf.ID) {
			for _, a := range pf.Addrs {
				held[a.Addr()] = vf.Owner{Kind: vf.OwnerHost, Name: "interface " + pf.Label()}
			}
			for _, a := range pf.HostAddrs {
				held[a.Addr()] = vf.Owner{Kind: vf.OwnerHost, Name: "interface above " + pf.Label()}
			}
		}
	}
	return held
}

// isOwners reports whether a lease is one of the owner's own, or of an earlier sandbox of
// its pod (TestI9MACOfALostSandboxComesBack).
func (n *neighbours) isOwners(l journal.Lease) bool {
	return l.Owner.Kind == n.owner.Kind && (l.Owner.UID == n.owner.UID || l.PodUID != "" && l.PodUID == n.podUID)
}

// sharesVLAN reports whether the lease of a record is on the same VLAN as the new lease. A
// damaged record counts as on it.
func (n *neighbours) sharesVLAN(r journal.Record) bool {
	switch {
	case r.Phase == vf.PhaseDamaged:
		return true
	case r.Lease.Owner.IsZero():
		return false
	}
	v := r.Lease.Wanted.VLANOver(r.Baseline.Admin)
	return v.ID == n.vlan.ID && (v.ID == 0 || v.Proto.String() == n.vlan.Proto.String())
}

// reachesVLAN reports whether the owner of a record can send on the VLAN of the new lease, or the
// new owner on the VLAN of the record. The owner of a VF without a VLAN can send on every VLAN:
// the NIC tags nothing, and the owner may tag frames itself (TestI9MACWithoutVLANIsOnEachVLAN).
func (n *neighbours) reachesVLAN(r journal.Record) bool {
	untagged := n.vlan.ID == 0 || r.Lease.Wanted.VLANOver(r.Baseline.Admin).ID == 0
	return n.sharesVLAN(r) || untagged && !r.Lease.Owner.IsZero()
}

// onSegment reports whether a PF is on the segment of the VF's PF. A PF that is not listed at the
// moment counts as on the segment. A PF that cannot be read counts too, since its pools are
// unknown, unless the segments of both PFs have names.
func (n *neighbours) onSegment(id vf.PFID) bool {
	if id == n.pf {
		return true
	}
	if n.segment == nil {
		n.segment = segmentOf(n.pf, n.pfs, n.spec())
	}
	i := slices.IndexFunc(n.pfs, func(pf vf.PF) bool { return pf.ID == id })
	switch {
	case n.segment[id] || i < 0:
		return true
	case n.pfs[i].Err == "" || id.IsZero():
		return false
	}
	own := slices.IndexFunc(n.pfs, func(pf vf.PF) bool { return pf.ID == n.pf })
	return own < 0 || n.spec().SegmentOf(n.pfs[own]) == "" || n.spec().SegmentOf(n.pfs[i]) == ""
}

// segmentOf returns the PFs on the segment of a PF, as far as Culvert knows them: PFs with
// one port, PFs whose segments have one name, and PFs whose VFs are in one pool, since any of
// these may serve the pool's networks.
func segmentOf(id vf.PFID, pfs []vf.PF, spec desired.Spec) map[vf.PFID]bool {
	groups := map[string][]vf.PFID{}
	for _, pf := range pfs {
		if pf.Port != "" {
			groups["port "+pf.Port] = append(groups["port "+pf.Port], pf.ID)
		}
		if s := spec.SegmentOf(pf); s != "" {
			groups["segment "+string(s)] = append(groups["segment "+string(s)], pf.ID)
		}
		for _, v := range pf.VFs {
			pool, _ := spec.PoolOf(pf, v.ID.Index, v)
			if name := pool.FullName(); name != "" && !slices.Contains(groups[name], pf.ID) {
				groups[name] = append(groups[name], pf.ID)
			}
		}
	}
	reached := map[vf.PFID]bool{id: true}
	for before := 0; before < len(reached); {
		before = len(reached)
		for _, members := range groups {
			if !slices.ContainsFunc(members, func(m vf.PFID) bool { return reached[m] }) {
				continue
			}
			for _, m := range members {
				reached[m] = true
			}
		}
	}
	return reached
}
