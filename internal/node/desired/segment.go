package desired

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// SegmentOf returns the name that persons gave the segment of a PF, or "".
func (s Spec) SegmentOf(pf vf.PF) vf.Segment {
	want, _ := s.ForPF(pf)
	return want.Segment
}

// MixedNext is the next step for a pool over two segments.
const MixedNext = "give each segment a pool of its own (selectors with pfNames), or name one segment for these PFs if it is one"

// CheckSegments returns an error that wraps vf.ErrInvalid if a pool has VFs of PFs on two named
// segments: its pods could not reach each other. PFs without a named segment do not count. As in
// MixedSegments, only VFs that exist count.
func (s Spec) CheckSegments(pool string, pfs []vf.PF) error {
	if why := s.MixedSegments(pool, pfs); why != "" {
		return fmt.Errorf("pool %s: %s: %w: %s", pool, why, vf.ErrInvalid, MixedNext)
	}
	return nil
}

// MixedSegments says which named segments a pool has VFs on, if these are two or more, and "" if
// not. Such a pool gives out no VF, so only VFs that exist count: PoolOf knows no device ID of a
// VF that is not made, and may forecast the wrong pool.
func (s Spec) MixedSegments(pool string, pfs []vf.PF) string {
	return describeMixed("it has", s.namePFsBySegment(pfs, func(pf vf.PF) bool { return s.hasVFOf(pool, pf) }))
}

// ForecastMixedSegments returns the result that MixedSegments will have once the wanted VFs are
// made, as far as PoolOf can forecast it. Culvert refuses no request because of the forecast.
func (s Spec) ForecastMixedSegments(pool string, pfs []vf.PF) string {
	return describeMixed("it would have", s.namePFsBySegment(pfs, func(pf vf.PF) bool { return s.reachesPF(pool, pf) }))
}

// namePFsBySegment returns the labels of the PFs on each named segment that isOf selects. It
// returns nil if no two PFs can be on two segments.
func (s Spec) namePFsBySegment(pfs []vf.PF, isOf func(vf.PF) bool) map[vf.Segment][]string {
	if !s.namesTwoSegments() {
		return nil
	}
	on := map[vf.Segment][]string{}
	for _, pf := range pfs {
		if name := s.SegmentOf(pf); name != "" && isOf(pf) {
			on[name] = append(on[name], pf.Label())
		}
	}
	return on
}

// describeMixed describes the PFs by their segments, if these are two or more.
func describeMixed(has string, on map[vf.Segment][]string) string {
	if len(on) < 2 {
		return ""
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(on)) {
		parts = append(parts, fmt.Sprintf("%s (%s)", name, strings.Join(on[name], ", ")))
	}
	return has + " VFs on two segments, whose pods do not reach each other: " + strings.Join(parts, " and ")
}

// namesTwoSegments reports whether any two PFs can be on two named segments. It spares hosts
// without named segments the look at each VF.
func (s Spec) namesTwoSegments() bool {
	var first vf.Segment
	isOther := func(name vf.Segment) bool {
		other := first.Conflicts(name)
		if first == "" {
			first = name
		}
		return other
	}
	return slices.ContainsFunc(s.Contested, func(c Contested) bool { return isOther(c.Keep.Segment) }) ||
		slices.ContainsFunc(s.PFs, func(r PFRule) bool { return isOther(r.Want.Segment) })
}

// PFsOf returns the PFs that have VFs in a pool, or will have them once the wanted VFs are made.
func (s Spec) PFsOf(pool string, pfs []vf.PF) []vf.PF {
	return slices.DeleteFunc(slices.Clone(pfs), func(pf vf.PF) bool { return !s.reachesPF(pool, pf) })
}

// hasVFOf reports whether a VF of a pool exists on a PF.
func (s Spec) hasVFOf(pool string, pf vf.PF) bool {
	return slices.ContainsFunc(pf.VFs, func(v vf.State) bool { return s.isIn(pool, pf, v.ID.Index, v) })
}

// isIn reports whether a VF is in a pool, as PoolOf says.
func (s Spec) isIn(pool string, pf vf.PF, index int, v vf.State) bool {
	p, in := s.PoolOf(pf, index, v)
	return in && p.FullName() == pool
}

// reachesPF reports whether a VF of a pool exists on a PF, or is forecast there.
func (s Spec) reachesPF(pool string, pf vf.PF) bool {
	if s.hasVFOf(pool, pf) {
		return true
	}
	made := make(map[int]bool, len(pf.VFs))
	for _, v := range pf.VFs {
		made[v.ID.Index] = true
	}
	want, _ := s.ForPF(pf)
	if pf.TotalVFs > 0 {
		want.VFs = min(want.VFs, pf.TotalVFs)
	}
	for i := range want.VFs {
		if !made[i] && s.isIn(pool, pf, i, vf.State{}) {
			return true
		}
	}
	return false
}
