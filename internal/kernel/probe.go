package kernel

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

// Probe finds out which settings the PF's driver has: it writes the values that it has read back
// to one VF. The VF must exist and be free. The write changes no value, but a driver may reset
// the VF.
//
// Probe does not write mac: every driver has it, and igb would then treat an address that the VF
// chose itself as one that the PF set. It does not write min_tx_rate either: drivers without it
// accept the present 0. Nor does it write "no VLAN" where that breaks a lock of the driver. All three
// stay vf.Unknown. max_tx_rate stays unknown while the PF has no
// carrier, since igb then refuses any rate.
func (k *Kernel) Probe(ctx context.Context, pf vf.PCIAddr, index int) (vf.Abilities, error) {
	return callBounded(ctx, func() (vf.Abilities, error) {
		var out vf.Abilities
		err := k.onPF(pf, func(c *rtnl.Conn, n netdev) error {
			a, err := readVFAdmin(c, n, index)
			if err != nil {
				return err
			}
			driver, err := linkTarget(k.sys.pciPath(pf, "driver"))
			if err != nil {
				return err
			}
			out, err = askDriver(func(s rtnl.VFSetting) error { return retryBusy(ctx, func() error { return c.SetVF(n.Index, s) }) }, index, a, vf.DriverOf(driver))
			return err
		})
		if err != nil {
			return out, fmt.Errorf("ask PF %s for its abilities by vf %d: %w", pf, index, err)
		}
		return out, nil
	})
}

// askDriver writes the present value of each setting. A setting stays Unknown if the answer is
// neither yes nor no, for example because the device is busy or its link is down.
func askDriver(write func(rtnl.VFSetting) error, index int, a vf.Admin, d vf.Driver) (vf.Abilities, error) {
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
	)
	if a.VLAN.String() != "none" || !d.BreaksOnNoVLAN {
		questions = append(questions, question{vf.SetVLAN, rtnl.VFVLAN(index, a.VLAN)})
	}
	if a.VLAN.ID == 0 && a.VLAN.QoS == 0 {
		// VLAN 0 of the other protocol changes nothing: it means no VLAN, too.
		questions = append(questions, question{vf.SetVLANProto, rtnl.VFVLAN(index, vf.VLAN{Proto: vf.Dot1AD})})
	}
	var gone error
	for _, q := range questions {
		if out[q.setting] != vf.Unknown {
			continue // no value was read, and Culvert must not invent one
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
		out[vf.SetMinTxRate] = vf.No // one message sets both rates, and the driver refuses it
	}
	return out, gone
}
