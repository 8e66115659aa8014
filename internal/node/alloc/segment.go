package alloc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// describeSegment names the segment of a PF.
func describeSegment(s vf.Segment) string {
	if s == "" {
		return "on no named segment"
	}
	return "on segment " + string(s)
}

// whyOffSegment returns the reason why a VF is not on the segment that the network asks for, as the
// end of a sentence about that VF. It returns "" if it is, or if the network asks for none.
func (h Host) whyOffSegment(c candidate, w Want) string {
	if w.Segment == "" || w.Owned {
		return ""
	}
	if s := h.Spec.SegmentOf(c.pf); s != w.Segment {
		return fmt.Sprintf("is of PF %s %s, and network %s asks for segment %s", c.pf.Label(), describeSegment(s), cmp.Or(w.Network, "of the request"), w.Segment)
	}
	return ""
}

// whyOtherSegment returns the reason why a VF is not on the segment of the members that a bond has
// so far, as whyNoMember does.
func (h Host) whyOtherSegment(c candidate, w Want) string {
	own := h.Spec.SegmentOf(c.pf)
	for _, pf := range h.memberPFs(w) {
		if s := h.Spec.SegmentOf(pf); own.Conflicts(s) {
			return fmt.Sprintf("is on segment %s, and PF %s of another member of the bond is on segment %s", own, pf.Label(), s)
		}
	}
	return ""
}

// checkNamedSegment returns why a request cannot have the VF that it names: the VF is on another
// segment than the network's, or in a pool over two segments. w.For may be empty.
func (h Host) checkNamedSegment(c candidate, w Want) error {
	if w.Owned {
		return nil
	}
	wantedFor := cmp.Or(w.For.String(), "network "+w.Network)
	if c.pool.Name != "" {
		if err := h.Spec.CheckSegments(c.pool.FullName(), h.PFs); err != nil {
			return fmt.Errorf("VF %s on %s, wanted for %s: %w", w.VF, c.pf.Label(), wantedFor, err)
		}
	}
	if why := h.whyOffSegment(c, w); why != "" {
		return fmt.Errorf("VF %s, wanted for %s, %s: %w: %s", w.VF, wantedFor, why, vf.ErrInvalid, h.adviseSegment(c, w))
	}
	return nil
}

// adviseSegment returns the next step for a VF that is not on the network's segment.
func (h Host) adviseSegment(c candidate, w Want) string {
	where := h.Spec.WhereDeclared(c.pf)
	if h.Spec.SegmentOf(c.pf) == "" {
		return fmt.Sprintf("name the segment of the PF (%s), or ask for a pool on segment %s", where, w.Segment)
	}
	return fmt.Sprintf("ask for a pool on segment %s, or correct the segment of the network or of the PF (%s)", w.Segment, where)
}

// checkSegmentOf returns an error if the pool has VFs and none is on the segment that the network
// asks for. Waiting would not help, as it does where the VFs on the segment are held.
func (h Host) checkSegmentOf(pool string, all []candidate, w Want) error {
	var off []candidate
	var pfs []string
	for _, c := range all {
		if c.pool.FullName() != pool {
			continue
		}
		if h.whyOffSegment(c, w) == "" {
			return nil
		}
		off = append(off, c)
		if label := fmt.Sprintf("%s %s", c.pf.Label(), describeSegment(h.Spec.SegmentOf(c.pf))); !slices.Contains(pfs, label) {
			pfs = append(pfs, label)
		}
	}
	if len(off) == 0 {
		return nil
	}
	return fmt.Errorf("pool %s has VFs of %s, and network %s asks for segment %s: %w for %s: %s",
		pool, strings.Join(pfs, ", "), cmp.Or(w.Network, "of the request"), w.Segment, vf.ErrInvalid, w.For, h.adviseSegment(off[0], w))
}
