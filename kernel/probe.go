package kernel

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/kernel/rtnl"
	"github.com/culvert-net/culvert/vf"
)

// Probe asks the PF's driver which settings it has, by writing back to one VF
// the values that were read. The VF must exist and be free: writing its own
// values back changes nothing, but a driver may reset the VF over it.
//
// Not asked are mac, which every driver has and for which igb would take an
// address that the VF chose itself as set by the PF, and min_tx_rate: drivers
// without it accept the 0 that is there. Both stay vf.Unknown. So does
// max_tx_rate while the PF has no carrier, where igb refuses any rate.
func (k *Kernel) Probe(ctx context.Context, pf vf.PCIAddr, index int) (vf.Abilities, error) {
	return bounded(ctx, func() (vf.Abilities, error) {
		var out vf.Abilities
		err := k.onPF(pf, func(c *rtnl.Conn, n netdev) error {
			a, err := readVFAdmin(c, n, index)
			if err != nil {
				return err
			}
			out, err = ask(func(s rtnl.VFSetting) error { return again(ctx, func() error { return c.SetVF(n.Index, s) }) }, index, a)
			return err
		})
		if err != nil {
			return out, fmt.Errorf("ask PF %s for its abilities by vf %d: %w", pf, index, err)
		}
		return out, nil
	})
}

// ask writes each setting as it is. An answer that is neither yes nor no (the
// device is busy, its link is down) leaves the setting Unknown.
func ask(write func(rtnl.VFSetting) error, index int, a vf.Admin) (vf.Abilities, error) {
	out := abilitiesRead(map[int]vf.Admin{index: a})
	type question struct {
		setting vf.Setting
		value   rtnl.VFSetting
	}
	var questions []question
	for _, s := range vf.Switches() {
		questions = append(questions, question{s, rtnl.VFSwitch(index, s, *a.Switch(s) == vf.Yes)})
	}
	questions = append(questions,
		question{vf.SetLinkState, rtnl.VFLinkState(index, a.LinkState)},
		question{vf.SetMaxTxRate, rtnl.VFRate(index, a.MinTxRate, a.MaxTxRate)},
		question{vf.SetVLAN, rtnl.VFVLAN(index, a.VLAN)},
	)
	if a.VLAN.ID == 0 && a.VLAN.QoS == 0 {
		// No VLAN of the other protocol is the same as none.
		questions = append(questions, question{vf.SetVLANProto, rtnl.VFVLAN(index, vf.VLAN{Proto: vf.Dot1AD})})
	}
	var gone error
	for _, q := range questions {
		if out[q.setting] != vf.Unknown {
			continue // reading told: a value must not be made up to be written
		}
		err := write(q.value)
		switch {
		case err == nil:
			out[q.setting] = vf.Yes
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EPROTONOSUPPORT):
			out[q.setting] = vf.No
		case errors.Is(err, unix.ENODEV), errors.Is(err, unix.EPERM):
			gone = errors.Join(gone, fmt.Errorf("%s: %w", q.setting, err))
		}
	}
	if out[vf.SetMaxTxRate] == vf.No {
		out[vf.SetMinTxRate] = vf.No // one message has both, and the driver has none
	}
	return out, gone
}
