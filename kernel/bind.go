package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/kernel/rtnl"
	"github.com/culvert-net/culvert/kernel/step"
	"github.com/culvert-net/culvert/vf"
)

// bindTries is how often a VF is bound until its netdevice has the MAC that
// the PF holds for it. Where the PF does not answer in time, igbvf makes an
// address up and its probe succeeds ("PF still in reset state"); seen with 14
// binds at once on a busy machine, and gone with the next probe.
const bindTries = 3

// bind binds a driver to a VF: driver_override says which, drivers_probe does
// it, and events tell when the netdevice is there and udev has named it.
func (k *Kernel) bind(ctx context.Context, s step.Bind) error {
	pf, index, err := k.sys.physfn(s.VF)
	if err != nil {
		return err
	}
	bound, err := target(k.sys.pci(s.VF, "driver"))
	if err != nil {
		return err
	}
	if bound != "" && !satisfies(bound, s.Driver) {
		return fmt.Errorf("driver %s is bound: unbind it first", bound)
	}
	for try := 1; ; try++ {
		n, err := k.bindOnce(ctx, pf, s, bound != "")
		if err != nil || bound != "" || !makesNetdev(s.Driver) {
			return err
		}
		if err = k.tookMAC(pf, index, n); err == nil || try == bindTries {
			return err
		}
		k.log.Warn("binding the VF again", "vf", s.VF, "err", err)
		if err := k.unbind(step.Unbind{VF: s.VF}); err != nil {
			return err
		}
	}
}

// bindOnce probes, unless a driver is bound already, and waits for the
// netdevice if there will be one.
func (k *Kernel) bindOnce(ctx context.Context, pf vf.PCIAddr, s step.Bind, already bool) (netdev, error) {
	udev, err := k.awaitUdev()
	if err != nil {
		return netdev{}, err
	}
	defer udev.close()
	if !already {
		if err := k.probe(ctx, pf, s); err != nil {
			return netdev{}, err
		}
	}
	if !makesNetdev(s.Driver) {
		return netdev{}, nil
	}
	n, err := k.awaitNetdev(ctx, udev, s.VF)
	if err != nil {
		return n, err
	}
	return n, udev.settled(ctx, n.Index)
}

// tookMAC checks that the netdevice has the admin MAC, if there is one.
func (k *Kernel) tookMAC(pf vf.PCIAddr, index int, n netdev) error {
	return k.onPF(pf, func(c *rtnl.Conn, p netdev) error {
		a, err := readVFAdmin(c, p, index)
		if err != nil || a.MAC.IsZero() {
			return err
		}
		l, err := c.Link(n.Index, false)
		if err != nil || l.MAC == a.MAC {
			return err
		}
		return fmt.Errorf("the netdevice %s took the address %s instead of %s, which the PF holds for it", l.Name, l.MAC, a.MAC)
	})
}

// satisfies reports whether the bound driver is what was asked for.
func satisfies(bound, wanted string) bool {
	if wanted == vf.DriverDefault {
		return makesNetdev(bound)
	}
	return bound == wanted
}

// makesNetdev tells drivers that hand the device to user space from those that
// make a netdevice of it.
func makesNetdev(driver string) bool {
	return !strings.HasPrefix(driver, "vfio-") && !strings.HasPrefix(driver, "uio_") && driver != "igb_uio"
}

// probe makes the kernel probe the VF and checks that a driver took it.
func (k *Kernel) probe(ctx context.Context, pf vf.PCIAddr, s step.Bind) error {
	if err := k.override(s.VF, s.Driver); err != nil {
		return err
	}
	if s.Driver == vf.DriverDefault {
		return k.probeDefault(ctx, pf, s.VF)
	}
	if !exists(filepath.Join(k.sys.root, "bus/pci/drivers", s.Driver)) {
		if err := modprobe(ctx, s.Driver); err != nil {
			return err
		}
	}
	return k.probed(s.VF, s.Driver)
}

// probeDefault lets the kernel choose. Where it has no driver for the device,
// the module is loaded by the device's alias, as udev would have done, and the
// probe repeated.
func (k *Kernel) probeDefault(ctx context.Context, pf, addr vf.PCIAddr) (err error) {
	giveBack, err := k.borrowAutoprobe(pf)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, giveBack()) }()
	first := k.probed(addr, "")
	if !errors.Is(first, errNotBound) {
		return first
	}
	alias, err := text(k.sys.pci(addr, "modalias"))
	if err != nil {
		return err
	}
	if err := modprobe(ctx, alias); err != nil {
		return errors.Join(first, err)
	}
	return k.probed(addr, "")
}

// errNotBound: the probe was carried out and no driver took the device.
var errNotBound = errors.New("no driver bound to it; dmesg says why its probe failed")

// probed writes drivers_probe and checks the driver. The kernel probes within
// the write (bus_rescan_devices_helper).
func (k *Kernel) probed(addr vf.PCIAddr, wanted string) error {
	err := k.write(filepath.Join(k.sys.root, "bus/pci/drivers_probe"), addr.String())
	bound, readErr := target(k.sys.pci(addr, "driver"))
	switch {
	case readErr != nil:
		return errors.Join(err, readErr)
	case bound == "" && err != nil:
		return fmt.Errorf("%w: %w", errNotBound, err)
	case bound == "":
		return errNotBound
	case wanted != "" && bound != wanted:
		return fmt.Errorf("driver %s bound to it instead", bound)
	}
	return nil
}

// override says which driver may bind: the one named and no other, or for ""
// whichever knows the device. An empty line clears it (driver_set_override).
func (k *Kernel) override(addr vf.PCIAddr, driver string) error {
	path := k.sys.pci(addr, "driver_override")
	have, err := text(path)
	if err != nil {
		return err
	}
	if have == "(null)" {
		have = ""
	}
	if have == driver {
		return nil
	}
	return k.write(path, driver+"\n")
}

// modprobe loads a module by its name or alias.
func modprobe(ctx context.Context, name string) error {
	out, err := exec.CommandContext(ctx, "modprobe", "--", name).CombinedOutput()
	if err != nil {
		return fmt.Errorf("load the module of %s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// awaitNetdev waits for the netdevice. Some drivers make it after their probe
// has returned (iavf asks the PF first).
func (k *Kernel) awaitNetdev(ctx context.Context, udev *udevWait, addr vf.PCIAddr) (netdev, error) {
	for {
		n, ok, err := k.sys.netdev(addr)
		if ok || err != nil {
			return n, err
		}
		if err := udev.next(ctx); err != nil {
			if ctx.Err() != nil {
				driver, _ := target(k.sys.pci(addr, "driver")) // only for a message
				return n, fmt.Errorf("driver %s made no netdevice in the host's netns: %w", driver, ended(ctx))
			}
			return n, err
		}
	}
}

// unbind takes the driver away. The kernel removes the netdevice within the
// write, in whatever netns it is.
func (k *Kernel) unbind(s step.Unbind) error {
	if _, err := k.sys.function(s.VF); errors.Is(err, vf.ErrNotFound) {
		return err
	}
	err := k.write(k.sys.pci(s.VF, "driver/unbind"), s.VF.String())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		err = nil // none was bound, or somebody was faster
	}
	if err != nil {
		return err
	}
	bound, err := target(k.sys.pci(s.VF, "driver"))
	if err == nil && bound != "" {
		return fmt.Errorf("driver %s is still bound", bound)
	}
	return err
}

// reset resets the function (drivers/pci/pci-sysfs.c, reset_store). The kernel shows
// the file where the function has a way to be reset; that of VFs is FLR.
func (k *Kernel) reset(s step.Reset) error {
	if _, err := k.sys.function(s.VF); errors.Is(err, vf.ErrNotFound) {
		return err
	}
	err := k.write(k.sys.pci(s.VF, "reset"), "1")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTTY) {
		return fmt.Errorf("%w: the function has no reset", vf.ErrUnable)
	}
	return err
}
