package desired

import (
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/vf"
)

// SegmentOf returns the name that persons gave the segment of a PF, or "".
func (s Spec) SegmentOf(pf vf.PF) vf.Segment {
	want, _ := s.ForPF(pf)
	return want.Segment
}

// MixedNext says what persons can do about a pool over two segments.
const MixedNext = "give each segment a pool of its own (selectors with pfNames), or name one segment for these PFs if it is one"

// CheckSegments returns an error that wraps vf.ErrInvalid if a pool has VFs of PFs on two named
// segments: its pods could not reach each other. PFs without a named segment are on no side.
func (s Spec) CheckSegments(pool string, pfs []vf.PF) error {
	if why := s.MixedSegments(pool, pfs); why != "" {
		return fmt.Errorf("pool %s: %s: %w: %s", pool, why, vf.ErrInvalid, MixedNext)
	}
	return nil
}

// MixedSegments says which named segments a pool has VFs on, if these are two or more, and "" if
// not. VFs that are not made yet count as PoolOf forecasts them.
func (s Spec) MixedSegments(pool string, pfs []vf.PF) string {
	if !s.namesTwoSegments() {
		return ""
	}
	on := map[vf.Segment][]string{}
	var names []vf.Segment
	for _, pf := range s.PFsOf(pool, pfs) {
		name := s.SegmentOf(pf)
		if name == "" {
			continue
		}
		if on[name] == nil {
			names = append(names, name)
		}
		on[name] = append(on[name], pf.Label())
	}
	if len(names) < 2 {
		return ""
	}
	slices.Sort(names)
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%s (%s)", name, strings.Join(on[name], ", "))
	}
	return "it has VFs on two segments, whose pods do not reach each other: " + strings.Join(parts, " and ")
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

func (s Spec) reachesPF(pool string, pf vf.PF) bool {
	made := make(map[int]bool, len(pf.VFs))
	for _, v := range pf.VFs {
		if p, in := s.PoolOf(pf, v.ID.Index, v); in && p.FullName() == pool {
			return true
		}
		made[v.ID.Index] = true
	}
	want, _ := s.ForPF(pf)
	if pf.TotalVFs > 0 {
		want.VFs = min(want.VFs, pf.TotalVFs)
	}
	for i := range want.VFs {
		if made[i] {
			continue
		}
		if p, in := s.PoolOf(pf, i, vf.State{}); in && p.FullName() == pool {
			return true
		}
	}
	return false
}
