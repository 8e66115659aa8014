package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// setNumVFs does not wait for carrier. igb resets its port when VFs are made or destroyed, and
// then has no carrier for some three seconds. A caller that binds VFs afterwards must wait for
// carrier first, or the PF does not answer their probes.
func (k *Kernel) setNumVFs(s step.SetNumVFs) error {
	path := k.sys.pciPath(s.PF, "sriov_numvfs")
	have, err := k.numVFs(s.PF)
	if err != nil || have == s.N {
		return err
	}
	if err := k.writeSysfs(path, strconv.Itoa(s.N)); err != nil {
		return k.sys.explainNumVFs(err, s, have)
	}
	if have, err = k.numVFs(s.PF); err != nil {
		return err
	}
	if have != s.N {
		// Some drivers accept the write and do not change the number.
		return fmt.Errorf("the driver took the write, but sriov_numvfs is %d: %w", have, vf.ErrUnable)
	}
	return nil
}

func (k *Kernel) numVFs(pf vf.PCIAddr) (int, error) {
	s, err := readLine(k.sys.pciPath(pf, "sriov_numvfs"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("no such device, or one without SR-IOV: %w", vf.ErrNotFound)
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(s)
}

func (t tree) totalVFs(pf vf.PCIAddr) int {
	n, _ := readNumber(t.pciPath(pf, "sriov_totalvfs"), 0) // only for a message
	return n
}

// explainNumVFs adds the meaning of an errno of sriov_numvfs_store or of a driver's
// sriov_configure. have is the number of VFs that the PF has. ENOMEM is sriov_enable's answer when
// a bridge has too little memory space or too few bus numbers (drivers/pci/iov.c). Drivers answer
// it for limits of their firmware (mlx5: MLX5_CMD_STAT_LIM_ERR). ENOSPC is a driver's answer when
// its interrupt vectors are used up (ice_set_per_vf_res).
func (t tree) explainNumVFs(err error, s step.SetNumVFs, have int) error {
	driver, _ := linkTarget(t.pciPath(s.PF, "driver")) // only for a message
	firmware := ""
	if ask := vf.DriverOf(driver).AskLimit(s.PF); ask != "" {
		firmware = "; the card's firmware may allow fewer (" + ask + ")"
	}
	switch {
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("there are %d VFs and the kernel wants 0 between two counts: %w", have, err)
	case errors.Is(err, unix.ERANGE):
		return fmt.Errorf("%w: it has at most %s%s: %w", vf.ErrUnable, vf.CountText(t.totalVFs(s.PF)), firmware, err)
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w: no driver is bound to the PF, or it cannot make VFs: %w", vf.ErrUnable, err)
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: the driver cannot make VFs, or not now (cxgb4: not before its ports' function is initialised): %w", vf.ErrUnable, err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("a VF is in use, or the driver does not allow it now: %w", err)
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("driver %s has too few MSI-X vectors or queues left for %s: ask for fewer VFs, give the PF fewer queues (ethtool -L), "+
			"or unload a module that has the vectors (irdma); dmesg has the count%s: %w", driver, vf.CountText(s.N), firmware, err)
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EIO):
		return fmt.Errorf("the bridge above the NIC may have too little memory space or too few bus numbers for %s: switch on SR-IOV, ARI and above-4G decoding in the BIOS, "+
			"or boot with pci=realloc or pci=assign-busses; dmesg has the cause%s: %w", vf.CountText(s.N), firmware, err)
	}
	return err
}

func (k *Kernel) setPFUp(s step.SetPFUp) error {
	return k.onPort(s.PF, func(c *rtnl.Conn, n netdev) error { return setUp(c, n.Index, true) })
}

func (k *Kernel) setPFMTU(s step.SetPFMTU) error {
	return k.onPort(s.PF, func(c *rtnl.Conn, n netdev) error { return setMTU(c, n.Index, s.MTU) })
}

func (k *Kernel) addPFAddress(s step.AddPFAddress) error {
	return k.onPort(s.PF, func(c *rtnl.Conn, n netdev) error {
		return c.AddAddr(rtnl.Addr{Index: n.Index, Prefix: s.Address, Proto: rtnl.ProtoCulvert, Flags: unix.IFA_F_NODAD})
	})
}

func (k *Kernel) delPFAddress(s step.DelPFAddress) error {
	return k.onPort(s.PF, func(c *rtnl.Conn, n netdev) error {
		return c.DelAddr(rtnl.Addr{Index: n.Index, Prefix: s.Address})
	})
}

// waitCarrier subscribes to events before it reads the link, so that it misses no change.
func (k *Kernel) waitCarrier(ctx context.Context, s step.WaitCarrier) error {
	return k.onPort(s.PF, func(c *rtnl.Conn, n netdev) error {
		w, err := rtnl.Watch()
		if err != nil {
			return err
		}
		defer w.Close()
		_, err = awaitCarrier(ctx, c, w, n.Index)
		return err
	})
}

// awaitCarrier returns the link once it has carrier.
func awaitCarrier(ctx context.Context, c *rtnl.Conn, w *rtnl.Watcher, index int) (rtnl.Link, error) {
	for {
		l, err := c.Link(index, false)
		if errors.Is(err, unix.ENODEV) {
			return l, errNoLink
		}
		if err != nil || l.Carrier {
			return l, err
		}
		switch err := w.Wait(ctx); {
		case ctx.Err() != nil && !l.Up:
			return l, fmt.Errorf("no carrier, and %s is down: %w", l.Name, waitError(ctx))
		case ctx.Err() != nil:
			return l, fmt.Errorf("no carrier on %s: %w", l.Name, waitError(ctx))
		case err != nil:
			return l, err
		}
	}
}
