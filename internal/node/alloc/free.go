package alloc

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// CheckFree returns vf.ErrNothingFree if no VF is free that w could get. It looks at the VF that w
// names, or else at the VFs of its pool, or else at those of all pools. The error is vf.ErrNotFound
// where there is no such VF or pool. It is vf.ErrInvalid where Choose refuses the VF or each of the
// pools because of segments.
func CheckFree(h Host, w Want) error {
	if !w.VF.IsZero() {
		return h.checkNamedFree(w)
	}
	pools, err := h.findUsablePools(w.Pool)
	if err != nil {
		return fmt.Errorf("network %s: %w", w.Network, err)
	}
	var (
		members []candidate
		off     int // on another segment than the network's
	)
	for _, c := range h.listCandidates() {
		switch {
		case !slices.Contains(pools, c.pool.FullName()):
		case h.whyOffSegment(c, w) != "":
			off++
		case c.rec.Phase == vf.PhaseFree:
			return nil
		default:
			members = append(members, c)
		}
	}
	if len(members) == 0 && off > 0 {
		return fmt.Errorf("network %s: %w: none of %d VFs is on segment %s", w.Network, vf.ErrNothingFree, off, w.Segment)
	}
	return w.refuseHeld(members)
}

// findUsablePools returns the full name of the pool that is named, or of the only pool, or else of
// all pools, without those on two segments. The error says why there is none.
func (h Host) findUsablePools(name string) ([]string, error) {
	pools := h.Spec.Pools
	if p, err := h.Spec.Pool(name); err == nil {
		pools = []desired.Pool{p}
	} else if name != "" {
		return nil, err
	}
	var (
		usable  []string
		refused error
	)
	for _, p := range pools {
		if err := h.Spec.CheckSegments(p.FullName(), h.PFs); err != nil {
			refused = errors.Join(refused, err)
			continue
		}
		usable = append(usable, p.FullName())
	}
	if len(usable) == 0 {
		return nil, refused
	}
	return usable, nil
}

// checkNamedFree is CheckFree for a request that names a VF.
func (h Host) checkNamedFree(w Want) error {
	for _, c := range h.listCandidates() {
		switch {
		case c.rec.PCI != w.VF:
		case c.rec.Phase != vf.PhaseFree:
			return w.refuseHeld([]candidate{c})
		default:
			return h.checkNamedSegment(c, w)
		}
	}
	return fmt.Errorf("VF %s: %w", w.VF, vf.ErrNotFound)
}

// refuseHeld returns the error of CheckFree for VFs of which none is free. It names the owners of
// the first three.
func (w Want) refuseHeld(members []candidate) error {
	holders := make([]string, 0, 3)
	for _, c := range members[:min(len(members), cap(holders))] {
		if c.rec.Phase == vf.PhaseMaking {
			holders = append(holders, fmt.Sprintf("%s is being made", c.rec.PCI))
			continue
		}
		holders = append(holders, fmt.Sprintf("%s is %s %s %s", c.rec.PCI, c.rec.Phase, prepositionOf(c.rec.Phase), c.rec.Holder()))
	}
	if more := len(members) - len(holders); more > 0 {
		holders = append(holders, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("network %s: none of %d VFs that it could use is free: %w: %s", w.Network, len(members), vf.ErrNothingFree, strings.Join(holders, ", "))
}

// prepositionOf returns the word between a phase and the VF's holder.
func prepositionOf(p vf.Phase) string {
	if p == vf.PhasePrepared {
		return "for"
	}
	return "of"
}
