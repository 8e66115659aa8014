// Package alloc chooses the VF that a request gets. It is pure: the hardware
// as it was last listed, the ledger's records and the pools come in, one
// record that is free goes out, or an error that says who has what was wanted.
// attach calls it inside the ledger's transaction, so what is chosen is still
// free when it is promised (I1).
package alloc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/desired"
	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/netannotation"
	"github.com/culvert-net/culvert/vf"
)

// Want is what a request says about which VF it gets.
type Want struct {
	VF   vf.PCIAddr // zero: any of Pool
	Pool string     // prefix/name or name; empty: the only pool
	For  vf.Owner   // named in errors
	// Network is the one of the request, named in errors.
	Network string
	// Apart is a VF on whose PF the chosen one must not be; zero: on any.
	Apart vf.ID
	// MAC is the address that the VF will have. A VF that has it without a lease is chosen
	// before others.
	MAC *vf.MAC
	// Given returns the pod that the kubelet gave a VF to, namespace/name, "" for none;
	// another text for one that it does not list yet. Only that pod gets the VF, attached
	// or not, and a pod that names a VF gets no other. Nil where there is no kubelet.
	Given func(vf.PCIAddr) string
}

// Host is what there is to choose from.
type Host struct {
	PFs     []vf.PF
	Records []journal.Record
	Spec    desired.Spec
}

// Choice is a free VF and where it is.
type Choice struct {
	PF     vf.PF
	Record journal.Record
	Pool   string // full name; empty when the VF is in no pool
	// Driver is what the owner gets the VF with: vf.DriverVFIO where the pool
	// says so, or where the VF is in no pool and is kept bound to it.
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

func (c candidate) choice() Choice {
	out := Choice{PF: c.pf, Record: c.rec, Driver: c.pool.DriverFor(c.rec.Baseline.Driver), Rules: c.pool}
	switch {
	case c.pool.Name != "":
		out.Pool = c.pool.FullName()
	case c.rec.Baseline.Driver == vf.DriverVFIO:
		out.Driver = vf.DriverVFIO
	}
	return out
}

// waits reports whether a VF that is kept bound to vfio-pci is in a pool of netdevices now:
// it was held when that changed, and is switched at the next look at the hardware. Only
// guests can have it as it is.
func (c candidate) waits(owner vf.Owner) bool {
	return owner.Kind != vf.OwnerGuest && c.pool.Name != "" && c.pool.DriverFor(c.rec.Baseline.Driver) != vf.DriverVFIO && c.rec.Baseline.Driver == vf.DriverVFIO
}

// Choose picks a VF: the one named, or of the pool's free VFs the one whose own MAC
// address is wanted, else one on the PF
// that has most of them left, the one that was given back longest ago, so that
// load spreads over the wires and a VF rests before it is used again.
//
// Errors: vf.ErrNotFound (no such VF or pool), vf.ErrHeld (the named one is
// taken), vf.ErrNotReady (the PF of the named one could not be read, or it is being
// switched to another driver), vf.ErrNothingFree, vf.ErrInvalid (which pool is not
// said and there are several, the kubelet gave the named one to no pod, or what is free
// cannot go to a guest).
func Choose(h Host, w Want) (Choice, error) {
	all := h.candidates()
	if !w.VF.IsZero() {
		return h.named(all, w)
	}
	wanted, err := h.Spec.Pool(w.Pool)
	if err != nil {
		return Choice{}, fmt.Errorf("%s wants a VF: %w", w.For, err)
	}
	pool := wanted.FullName()
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
		if c.rec.Phase != journal.Free {
			continue
		}
		if w.givenTo(c.rec.PCI) != "" || c.waits(w.For) {
			continue
		}
		if err := h.isolated(c, w.For); err != nil {
			unfit = err
			continue
		}
		if w.beside(c) {
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
	best := slices.MinFunc(free, func(a, b candidate) int {
		return cmp.Or(
			cmp.Compare(w.ownMAC(b), w.ownMAC(a)),
			cmp.Compare(perPF[b.pf.ID], perPF[a.pf.ID]),
			a.rec.Released.Compare(b.rec.Released),
			a.rec.ID.Compare(b.rec.ID),
		)
	})
	return best.choice(), nil
}

// ownMAC is 1 for the VF that has the wanted MAC address without a lease, else 0.
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

// refuseName says why a request cannot have the free VF that it names, or nil. A pod names
// the VF that the kubelet gave it, which is listed before the pod's networks are made. A
// name in a network that any pod may use would give away VFs that the kubelet counts as
// free. Guests and containers outside Kubernetes name those that no pod was given.
func (w Want) refuseName(c candidate) error {
	pod := w.givenTo(w.VF)
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

func (h Host) candidates() []candidate {
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

// isolated says why a guest cannot have a VF: VFIO gives user space whole IOMMU
// groups, and no group is a guest's that has somebody else's function in it
// (kernel, driver-api/vfio).
func (h Host) isolated(c candidate, owner vf.Owner) error {
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

// beside reports whether a VF cannot be the other one of a pair: a bond of two VFs of
// one PF goes down with its wire.
func (w Want) beside(c candidate) bool { return w.Apart != (vf.ID{}) && w.Apart.PF == c.pf.ID }

func (h Host) named(all []candidate, w Want) (Choice, error) {
	for _, c := range all {
		if c.rec.PCI != w.VF {
			continue
		}
		switch c.rec.Phase {
		case journal.Free:
			if w.beside(c) {
				return Choice{}, fmt.Errorf("VF %s is on %s, where %s has the other one of the pair: %w: a pair needs VFs of two PFs", w.VF, c.pf.Label(), w.For, vf.ErrInvalid)
			}
			if c.waits(w.For) {
				return Choice{}, fmt.Errorf("VF %s on %s: it is being switched from %s to an interface, as pool %s wants it now, so %s cannot have it yet: %w",
					w.VF, c.pf.Label(), vf.DriverVFIO, c.pool.FullName(), w.For, vf.ErrNotReady)
			}
			if err := w.refuseName(c); err != nil {
				return Choice{}, err
			}
			return c.choice(), h.isolated(c, w.For)
		case journal.Damaged:
			return Choice{}, fmt.Errorf("VF %s on %s: its record in the ledger is damaged (%s), so %s cannot have it: culvert ledger check says more: %w",
				w.VF, c.pf.Label(), c.rec.Reason, w.For, vf.ErrHeld)
		case journal.Quarantined:
			return Choice{}, fmt.Errorf("VF %s on %s: quarantined (%s), so %s cannot have it: see culvert vf show %s: %w",
				w.VF, c.pf.Label(), c.rec.Reason, w.For, w.VF, vf.ErrHeld)
		}
		return Choice{}, fmt.Errorf("VF %s on %s: %w by %s, wanted for %s", w.VF, c.pf.Label(), vf.ErrHeld, c.rec.Lease.Owner, w.For)
	}
	for _, r := range h.Records {
		if i := slices.IndexFunc(h.PFs, func(pf vf.PF) bool { return pf.ID == r.ID.PF && pf.Err != "" }); r.PCI == w.VF && i >= 0 {
			return Choice{}, fmt.Errorf("VF %s: PF %s could not be read (%s), so %s cannot have it now: %w",
				w.VF, h.PFs[i].Label(), h.PFs[i].Err, w.For, vf.ErrNotReady)
		}
	}
	return Choice{}, fmt.Errorf("VF %s: %w among the VFs that culvertd made: see culvert vf list", w.VF, vf.ErrNotFound)
}
