package kernel

import (
	"context"
	"fmt"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

// VFTraffic returns the counters that the driver of a PF has of its VFs, by index. Those of a VF with
// a netdevice are its netdevice's (vf.Link); these are for VFs that vfio drives. There are none if the
// driver has none, as igb (a driver without ndo_get_vf_stats; TestLabTraffic).
func (k *Kernel) VFTraffic(ctx context.Context, pf vf.PCIAddr) (map[int]vf.Traffic, error) {
	return readBounded(ctx, &k.hangs, "the counters of the VFs of PF "+pf.String(), func() (out map[int]vf.Traffic, err error) {
		err = k.onPF(pf, func(c *rtnl.Conn, n netdev) error {
			out, err = c.VFTraffic(n.Index)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read the counters of the VFs of PF %s: %w", pf, err)
		}
		return out, nil
	})
}
