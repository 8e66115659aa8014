// Package flow computes the traffic of VFs from two statuses of a node. The command culvert vf top
// calls it.
package flow

import (
	"cmp"
	"slices"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// Between returns the flows of the VFs in use: those of after with an owner or another user that also
// before has with the same owner. The VF with the most bits comes first, and VFs without counters last.
func Between(before, after api.NodeStatus) []api.VFFlow {
	seconds := after.Time.Sub(before.Time).Seconds()
	was := map[vf.ID]api.VF{}
	for _, v := range before.VFs {
		was[v.ID] = v
	}
	out := []api.VFFlow{}
	for _, v := range after.VFs {
		if v.Owner == nil && v.UsedBy == "" {
			continue
		}
		f := api.VFFlow{
			Name: v.Name, PF: v.PF, PCI: v.PCI, Pool: v.Pool, Owner: v.Owner, UsedBy: v.UsedBy, Network: v.Network, Seconds: seconds,
		}
		f.Rx, f.Tx = compare(was[v.ID], v, seconds)
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(a, b api.VFFlow) int { return cmp.Compare(total(b), total(a)) })
	return out
}

// compare returns nil if the counters of the two moments are not those of one owner and netdevice.
func compare(before, after api.VF, seconds float64) (rx, tx *api.Flow) {
	if before.Traffic == nil || after.Traffic == nil || before.Generation != after.Generation || seconds <= 0 {
		return nil, nil
	}
	rise, ok := after.Traffic.Since(*before.Traffic)
	if !ok {
		return nil, nil
	}
	each := func(n uint64) float64 { return float64(n) / seconds }
	return &api.Flow{Bits: 8 * each(rise.RxBytes), Packets: each(rise.RxPackets), Dropped: each(rise.RxDropped), Errors: each(rise.RxErrors)},
		&api.Flow{Bits: 8 * each(rise.TxBytes), Packets: each(rise.TxPackets), Dropped: each(rise.TxDropped), Errors: each(rise.TxErrors)}
}

// total returns the bits of both directions, or a negative number if they are unknown.
func total(f api.VFFlow) float64 {
	if f.Rx == nil {
		return -1
	}
	return f.Rx.Bits + f.Tx.Bits
}
