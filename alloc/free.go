package alloc

import (
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/journal"
	"github.com/culvert-net/culvert/vf"
)

// CheckFree returns vf.ErrNothingFree if no VF is free that w could get. That is the VF that w
// names, or else the VFs of its pool, or else those of all pools. The error is vf.ErrNotFound
// where there is no such VF or pool, and vf.ErrInvalid where the pool is on two segments.
func CheckFree(h Host, w Want) error {
	pool := ""
	if w.VF.IsZero() && w.Pool != "" {
		p, err := h.Spec.Pool(w.Pool)
		if err != nil {
			return err
		}
		pool = p.FullName()
	}
	if pool != "" {
		if err := h.Spec.CheckSegments(pool, h.PFs); err != nil {
			return fmt.Errorf("network %s: %w", w.Network, err)
		}
	}
	var (
		members []candidate
		off     int // on another segment than the network's
	)
	for _, c := range h.listCandidates() {
		switch {
		case !w.VF.IsZero() && c.rec.PCI != w.VF, w.VF.IsZero() && c.pool.Name == "", pool != "" && c.pool.FullName() != pool:
		case h.whyOffSegment(c, w) != "":
			off++
		case c.rec.Phase == journal.Free:
			return nil
		default:
			members = append(members, c)
		}
	}
	if len(members) == 0 && off > 0 {
		return fmt.Errorf("network %s: %w: none of %d VFs is on segment %s", w.Network, vf.ErrNothingFree, off, w.Segment)
	}
	if !w.VF.IsZero() && len(members) == 0 {
		return fmt.Errorf("VF %s: %w", w.VF, vf.ErrNotFound)
	}
	holders := make([]string, 0, 3)
	for _, c := range members[:min(len(members), cap(holders))] {
		holders = append(holders, fmt.Sprintf("%s is %s of %s", c.rec.PCI, c.rec.Phase, c.rec.Holder()))
	}
	if more := len(members) - len(holders); more > 0 {
		holders = append(holders, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("network %s: none of %d VFs that it could use is free: %w: %s", w.Network, len(members), vf.ErrNothingFree, strings.Join(holders, ", "))
}
