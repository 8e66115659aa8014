package journal

import (
	"cmp"
	"slices"

	"github.com/culvert-net/culvert/internal/vf"
)

// GroupBonds returns the records of the attached bonds, one list a bond, with the members in the
// order of their names. The first member holds the addresses, unless its VF is gone.
func GroupBonds(records []Record) [][]Record {
	type attachment struct{ uid, name string }
	var (
		out [][]Record
		at  = map[attachment]int{}
	)
	for _, r := range records {
		if r.Lease.Bond == nil || r.Phase != vf.PhaseAttached {
			continue
		}
		key := attachment{r.Lease.Owner.UID, r.Lease.Owner.Interface}
		i, known := at[key]
		if !known {
			i = len(out)
			at[key], out = i, append(out, nil)
		}
		out[i] = append(out[i], r)
	}
	for _, members := range out {
		slices.SortFunc(members, func(a, b Record) int { return cmp.Compare(a.Lease.Wanted.Interface, b.Lease.Wanted.Interface) })
	}
	return out
}
