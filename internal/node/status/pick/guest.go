package pick

import (
	"cmp"
	"slices"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// Guests returns the VFs that virtual machines have, ordered by guest and device.
func Guests(st api.NodeStatus) []api.VF {
	all := filterVFs(st.VFs, func(v api.VF) bool { return v.Owner != nil && v.Owner.Kind == vf.OwnerGuest })
	slices.SortStableFunc(all, func(a, b api.VF) int {
		return cmp.Or(cmp.Compare(a.Owner.Name, b.Owner.Name), cmp.Compare(a.Owner.Interface, b.Owner.Interface))
	})
	return all
}

// Guest returns the VFs of one guest, which is named by its name or UUID.
func Guest(st api.NodeStatus, word string) []api.VF {
	return filterVFs(Guests(st), func(v api.VF) bool { return v.Owner.Name == word || v.Owner.UID == word })
}
