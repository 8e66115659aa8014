// Package alloc chooses the VF that a request gets. It is pure: the hardware as it was last
// listed, the ledger's records and the pools go in; the record of a free VF comes out, or an
// error that names the owners of the VFs that the request could have had. attach calls it inside
// the ledger's transaction, so the VF is still free when the lease is written (I1).
package alloc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/journal"
	"github.com/culvert-net/culvert/internal/vf"
)

// Want has the part of a request that decides which VF it gets.
type Want struct {
	VF   vf.PCIAddr // zero: any of Pool
	Pool string     // prefix/name or name; empty: the only pool
	For  vf.Owner   // named in errors
	// PodUID is the UID of the pod For in its cluster; empty where it is not known. A VF of a
	// ResourceClaim goes only to a pod of that claim.
	PodUID string
	// Network is the request's network, named in errors.
	Network string
	// Apart is a VF on whose PF the chosen one must not be; zero: on any.
	Apart vf.ID
	// Bond is set if the VF becomes a member of a bond, whose VFs so far are Members.
	Bond    *vf.Bond
	Members []vf.ID
	// OfPod is set if the VF must be one that the kubelet gave to the pod For.
	OfPod bool
	// Segment is the segment on which the PF of the VF must be, by its name; empty: any.
	Segment vf.Segment
	// Owned is set if For has the VF already. Then the segment of its PF is not judged.
	Owned bool
	// MAC is the address that the VF will have. Choose prefers a VF whose own MAC address it is.
	MAC *vf.MAC
	// Given returns the pod that the kubelet gave a VF to, as namespace/name. It returns "" if
	// there is no such pod, and a description if the kubelet does not list the pod yet. Only that
	// pod gets the VF, and a pod that names a VF gets no other. Given is nil on a host without a
	// kubelet.
	Given func(vf.PCIAddr) string
}

// Host has the VFs to choose from.
type Host struct {
	PFs     []vf.PF
	Records []journal.Record
	Spec    desired.Spec
	// IsDark reports whether the VF of a lease has had no carrier for long although its PF has a link;
	// nil: none has.
	IsDark func(journal.Record) bool
}

// Choice is a VF that is free, or prepared for the pod that wants it, and where it is.
type Choice struct {
	PF     vf.PF
	Record journal.Record
	Pool   string // full name; empty when the VF is in no pool
	// Driver is the driver that the VF has with its owner: vf.DriverVFIO if the pool wants that,
	// or if the VF is in no pool and its baseline has that driver.
	Driver string
	// Rules is the pool with what it allows; zero when the VF is in no pool.
	Rules desired.Pool
}

// candidate is a VF that is on the bus and in the ledger.
type candidate struct {
	pf    vf.PF
	rec   journal.Record
	pool  desired.Pool
	group int // IOMMU group, -1: none
}

func (c candidate) toChoice() Choice {
	out := Choice{PF: c.pf, Record: c.rec, Driver: c.pool.DriverFor(c.rec.Baseline.Driver), Rules: c.pool}
	switch {
	case c.pool.Name != "":
		out.Pool = c.pool.FullName()
	case c.rec.Baseline.Driver == vf.DriverVFIO:
		out.Driver = vf.DriverVFIO
	}
	return out
}

// waitsForSwitch reports whether a VF that is bound to vfio-pci is now in a pool of netdevices.
// It had an owner when the pool changed, and culvertd rebinds it after the next listing. Until
// then only a guest can get it.
func (c candidate) waitsForSwitch(owner vf.Owner) bool {
	return owner.Kind != vf.OwnerGuest && c.pool.Name != "" && c.pool.DriverFor(c.rec.Baseline.Driver) != vf.DriverVFIO && c.rec.Baseline.Driver == vf.DriverVFIO
}

// Choose picks the VF that the request names. If it names none, Choose picks among the pool's free
// VFs. It takes a VF of a PF without a link, or of a doubtful PF, only if there is no other. Among
// VFs of equal rank it picks the VF whose own MAC address is wanted. Otherwise it takes the PF that
// has the most free VFs of the pool, and there the VF that was given back longest ago. So load
// spreads over the wires, and a VF rests before it is used again.
//
// A VF that is prepared for a ResourceClaim goes only to a pod of that claim, which names the VF.
//
// Errors: vf.ErrNotFound (no such VF or pool), vf.ErrHeld (the named VF has an owner, or a claim of
// other pods),
// vf.ErrNotReady (the PF of the named VF could not be read, or the VF waits for another driver),
// vf.ErrNothingFree, vf.ErrInvalid (the request names none of several pools, the kubelet gave the
// named VF to no pod, the named VF is not in the named pool, the VF or the pool is on another segment
// than the request's, the pool is on two segments, or the free VFs cannot go to a guest).
func Choose(h Host, w Want) (Choice, error) {
	all := h.listCandidates()
	if !w.VF.IsZero() {
		return h.chooseNamed(all, w)
	}
	wanted, err := h.Spec.Pool(w.Pool)
	if err != nil {
		return Choice{}, fmt.Errorf("%s wants a VF: %w", w.For, err)
	}
	pool := wanted.FullName()
	if err := h.Spec.CheckSegments(pool, h.PFs); err != nil {
		return Choice{}, fmt.Errorf("%s wants a VF: %w", w.For, err)
	}
	if err := h.checkSegmentOf(pool, all, w); err != nil {
		return Choice{}, err
	}
	var (
		members, free []candidate
		unfit         error
		perPF         = map[vf.PFID]int{}
	)
	for _, c := range all {
		if c.pool.FullName() != pool {
			continue
		}
		members = append(members, c)
		if c.rec.Phase != vf.PhaseFree {
			continue
		}
		if w.isOthers(c) || c.waitsForSwitch(w.For) {
			continue
		}
		if err := h.checkIsolated(c, w.For); err != nil {
			unfit = err
			continue
		}
		if w.isBeside(c) || h.whyOffSegment(c, w) != "" || h.whyNoMember(c, w) != "" {
			continue
		}
		free = append(free, c)
		perPF[c.pf.ID]++
	}
	if len(free) == 0 && unfit != nil {
		return Choice{}, unfit
	}
	if len(free) == 0 {
		return Choice{}, h.nothingFree(pool, members, w)
	}
	rank := h.rankPFs()
	best := slices.MinFunc(free, func(a, b candidate) int {
		return cmp.Or(
			h.compareMembers(a, b, w),
			cmp.Compare(rank[a.pf.ID], rank[b.pf.ID]),
			cmp.Compare(w.ownMAC(b), w.ownMAC(a)),
			cmp.Compare(perPF[b.pf.ID], perPF[a.pf.ID]),
			a.rec.Released.Compare(b.rec.Released),
			a.rec.ID.Compare(b.rec.ID),
		)
	})
	return best.toChoice(), nil
}

// rankPFs returns 2 for each PF that has no link, 1 for a doubtful one, and 0 for others.
func (h Host) rankPFs() map[vf.PFID]int {
	out := map[vf.PFID]int{}
	for _, pf := range h.PFs {
		switch {
		case pf.LinkProblem() != "":
			out[pf.ID] = 2
		case IsDoubtful(pf, h.Records, h.IsDark):
			out[pf.ID] = 1
		}
	}
	return out
}

// IsDoubtful reports whether VFs of a PF are given out only if there are no others: the PF had
// errors of late, one of its VFs is in quarantine, or one has no carrier although the PF has a link.
func IsDoubtful(pf vf.PF, records []journal.Record, isDark func(journal.Record) bool) bool {
	return len(pf.Faults) > 0 || slices.ContainsFunc(records, func(r journal.Record) bool {
		return r.ID.PF == pf.ID && (r.IsAside() || isDark != nil && isDark(r))
	})
}

// ownMAC returns 1 for the VF whose own MAC address is wanted, and 0 for others.
func (w Want) ownMAC(c candidate) int {
	if w.MAC != nil && *w.MAC == c.rec.Baseline.Admin.MAC {
		return 1
	}
	return 0
}

func (w Want) givenTo(a vf.PCIAddr) string {
	if w.Given == nil {
		return ""
	}
	return w.Given(a)
}

// refuseName returns the reason why a request cannot have the free VF that it names, or nil. A
// pod may name only the VF that the kubelet gave it; the kubelet lists that VF before the pod's
// networks are made. Otherwise a name in a network that any pod may use would give away VFs that
// the kubelet counts as free. Guests and containers outside Kubernetes may name VFs that the
// kubelet gave to no pod.
func (w Want) refuseName(c candidate) error {
	pod := w.givenTo(w.VF)
	if c.rec.Phase == vf.PhasePrepared {
		if err := w.refuseClaim(c); err != nil || pod == "" {
			return err
		}
	}
	switch {
	case w.Given == nil, pod == "" && w.For.Kind != vf.OwnerPod, pod != "" && w.For.Kind == vf.OwnerPod && w.For.Name == pod:
		return nil
	case !strings.Contains(pod, "/") && pod != "":
		return fmt.Errorf("VF %s on %s: %w: the kubelet gives it to a pod that it does not list yet, wanted for %s: try again", w.VF, c.pf.Label(), vf.ErrHeld, w.For)
	case pod != "":
		return fmt.Errorf("VF %s on %s: %w: the kubelet gave it to pod %s, wanted for %s: let the pod ask for the pool as a resource, and leave deviceID out of the network",
			w.VF, c.pf.Label(), vf.ErrHeld, pod, w.For)
	}
	resource := "the resource of a pool"
	if c.pool.Name != "" {
		resource = c.pool.FullName()
	}
	return fmt.Errorf("VF %s on %s: the kubelet gave it to no pod: %w for %s (network %s): set the annotation %s of the NetworkAttachmentDefinition to %s, "+
		"request %s in the pod's resources, and leave deviceID out of the network",
		w.VF, c.pf.Label(), vf.ErrInvalid, w.For, w.Network, netannotation.ResourceName, resource, resource)
}

// refuseClaim returns an error unless the request is of a pod for which the claim of a prepared VF was
// reserved.
func (w Want) refuseClaim(c candidate) error {
	if w.For.Kind == vf.OwnerPod && c.rec.Claim.IsFor(w.PodUID) {
		return nil
	}
	return fmt.Errorf("VF %s on %s: %w by %s, wanted for %s: only the pods that the claim was reserved for when it was prepared get it",
		w.VF, c.pf.Label(), vf.ErrHeld, c.rec.Holder(), w.For)
}

func (h Host) listCandidates() []candidate {
	records := make(map[vf.ID]journal.Record, len(h.Records))
	for _, r := range h.Records {
		records[r.ID] = r
	}
	var out []candidate
	for _, pf := range h.PFs {
		for _, v := range pf.VFs {
			rec, ok := records[v.ID]
			if !ok {
				continue // not made or taken over yet
			}
			rec.PCI = v.PCI
			pool, _ := h.Spec.PoolOf(pf, v.ID.Index, v)
			out = append(out, candidate{pf, rec, pool, v.IOMMUGroup})
		}
	}
	return out
}

// checkIsolated returns an error when a guest cannot have a VF: VFIO gives user space whole IOMMU
// groups, so no function of its group may have another owner (Linux,
// Documentation/driver-api/vfio.rst).
func (h Host) checkIsolated(c candidate, owner vf.Owner) error {
	if owner.Kind != vf.OwnerGuest {
		return nil
	}
	if c.group < 0 {
		return fmt.Errorf("VF %s on %s is in no IOMMU group: %w for %s: switch the IOMMU on (culvert doctor says how)", c.rec.PCI, c.pf.Label(), vf.ErrInvalid, owner)
	}
	var others []string
	for _, pf := range h.PFs {
		if pf.IOMMUGroup == c.group {
			others = append(others, "PF "+pf.Label())
		}
		for _, v := range pf.VFs {
			if v.IOMMUGroup == c.group && v.PCI != c.rec.PCI {
				others = append(others, "VF "+v.PCI.String())
			}
		}
	}
	if len(others) == 0 {
		return nil
	}
	return fmt.Errorf("VF %s on %s shares IOMMU group %d with %s: %w for %s: put the card into a slot below a root port that isolates it (ACS)",
		c.rec.PCI, c.pf.Label(), c.group, strings.Join(others, ", "), vf.ErrInvalid, owner)
}

// isBeside reports whether a VF is on the PF that Apart excludes: a bond of two VFs of one PF
// fails with that PF's wire.
func (w Want) isBeside(c candidate) bool { return w.Apart != (vf.ID{}) && w.Apart.PF == c.pf.ID }

// checkNamedPool refuses a VF of another pool than the request names. The request may be old: PCI
// addresses move when a card is added to the host. An owner that uses the VF already keeps it.
func (w Want) checkNamedPool(c candidate, all []candidate) error {
	if w.Owned || w.Pool == "" || c.pool.Name != "" && (w.Pool == c.pool.FullName() || w.Pool == c.pool.Name) {
		return nil
	}
	where, now := "no pool", ""
	if c.pool.Name != "" {
		where = "pool " + c.pool.FullName()
	}
	for _, other := range all {
		if w.MAC != nil && *w.MAC == other.rec.Baseline.Admin.MAC {
			now = fmt.Sprintf(": VF %s on %s has the MAC address %s that %s asks for", other.rec.PCI, other.pf.Label(), w.MAC, w.For)
		}
	}
	return fmt.Errorf("VF %s on %s is in %s, and %s wants one of pool %s: %w%s: ask for a VF of that pool, or leave the pool out",
		w.VF, c.pf.Label(), where, w.For, w.Pool, vf.ErrInvalid, now)
}

func (h Host) chooseNamed(all []candidate, w Want) (Choice, error) {
	for _, c := range all {
		if c.rec.PCI != w.VF {
			continue
		}
		switch c.rec.Phase {
		case vf.PhaseFree, vf.PhasePrepared:
			if w.isBeside(c) {
				return Choice{}, fmt.Errorf("VF %s is on %s, where %s has the other one of the pair: %w: a pair needs VFs of two PFs", w.VF, c.pf.Label(), w.For, vf.ErrInvalid)
			}
			if err := w.checkNamedPool(c, all); err != nil {
				return Choice{}, err
			}
			if err := h.checkNamedSegment(c, w); err != nil {
				return Choice{}, err
			}
			if why := h.whyNoMember(c, w); why != "" {
				return Choice{}, fmt.Errorf("VF %s of PF %s cannot be in the bond of %s: %w: it %s: %s", w.VF, c.pf.Label(), w.For, vf.ErrInvalid, why, h.adviseBond(c, w))
			}
			if c.waitsForSwitch(w.For) {
				return Choice{}, fmt.Errorf("VF %s on %s: it is being switched from %s to an interface, as pool %s wants it now, so %s cannot have it yet: %w",
					w.VF, c.pf.Label(), vf.DriverVFIO, c.pool.FullName(), w.For, vf.ErrNotReady)
			}
			if err := w.refuseName(c); err != nil {
				return Choice{}, err
			}
			return c.toChoice(), h.checkIsolated(c, w.For)
		case vf.PhaseDamaged:
			return Choice{}, fmt.Errorf("VF %s on %s: its record in the ledger is damaged (%s), so %s cannot have it: culvert ledger check says more: %w",
				w.VF, c.pf.Label(), c.rec.Reason, w.For, vf.ErrHeld)
		case vf.PhaseQuarantined:
			return Choice{}, fmt.Errorf("VF %s on %s: quarantined (%s), so %s cannot have it: see culvert vf show %s: %w",
				w.VF, c.pf.Label(), c.rec.Reason, w.For, w.VF, vf.ErrHeld)
		}
		return Choice{}, fmt.Errorf("VF %s on %s: %w by %s, wanted for %s", w.VF, c.pf.Label(), vf.ErrHeld, c.rec.Holder(), w.For)
	}
	for _, r := range h.Records {
		if i := slices.IndexFunc(h.PFs, func(pf vf.PF) bool { return pf.ID == r.ID.PF && pf.Err != "" }); r.PCI == w.VF && i >= 0 {
			return Choice{}, fmt.Errorf("VF %s: PF %s could not be read (%s), so %s cannot have it now: %w",
				w.VF, h.PFs[i].Label(), h.PFs[i].Err, w.For, vf.ErrNotReady)
		}
	}
	return Choice{}, fmt.Errorf("VF %s: %w among the VFs that culvertd made: see culvert vf list", w.VF, vf.ErrNotFound)
}
