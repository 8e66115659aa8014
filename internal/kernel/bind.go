package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// bindTries is how often a VF is bound until its netdevice has the MAC that the PF holds for it.
// If the PF does not answer in time ("PF still in reset state"), igbvf makes up an address and
// its probe succeeds. This was seen with 14 binds at once on a busy machine; the next probe got
// the right MAC.
const bindTries = 3

// bindDriver binds a driver to a VF: it writes the driver's name to driver_override, and probes
// by drivers_probe. Events report when the netdevice exists and udev has named it.
func (k *Kernel) bindDriver(ctx context.Context, s step.Bind) error {
	pf, index, err := k.sys.findPF(s.VF)
	if err != nil {
		return err
	}
	bound, err := linkTarget(k.sys.pciPath(s.VF, "driver"))
	if err != nil {
		return err
	}
	if bound != "" && !driverSatisfies(bound, s.Driver) {
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
		if err := k.unbindDriver(step.Unbind{VF: s.VF}); err != nil {
			return err
		}
	}
}

// bindOnce probes, unless a driver is bound already, and waits for the netdevice if the driver
// makes one.
func (k *Kernel) bindOnce(ctx context.Context, pf vf.PCIAddr, s step.Bind, already bool) (netdev, error) {
	udev, err := k.awaitUdev()
	if err != nil {
		return netdev{}, err
	}
	defer udev.closeEvents()
	if !already {
		if err := k.probeVF(ctx, pf, s); err != nil {
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
	return n, udev.awaitSettled(ctx, n.Index)
}

// tookMAC checks that the netdevice has the admin MAC, if the PF holds one.
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

// driverSatisfies reports whether the bound driver is the wanted one, or for vf.DriverDefault any
// driver that makes a netdevice.
func driverSatisfies(bound, wanted string) bool {
	if wanted == vf.DriverDefault {
		return makesNetdev(bound)
	}
	return bound == wanted
}

// makesNetdev reports whether a driver makes a netdevice, rather than handing the device to
// user space.
func makesNetdev(driver string) bool {
	return !strings.HasPrefix(driver, "vfio-") && !vf.IsUIO(driver)
}

// probeVF makes the kernel probe the VF and checks that a driver is bound.
func (k *Kernel) probeVF(ctx context.Context, pf vf.PCIAddr, s step.Bind) error {
	if s.Driver != vf.DriverDefault {
		return k.probeNamed(ctx, s.VF, s.Driver)
	}
	driver, err := linkTarget(k.sys.pciPath(pf, "driver"))
	if err != nil {
		return err
	}
	known := vf.DriverOf(driver).VFDrivers
	if err := k.probeDefault(ctx, pf, s.VF, known); err != nil {
		return err
	}
	bound, err := linkTarget(k.sys.pciPath(s.VF, "driver"))
	if err != nil || makesNetdev(bound) {
		return err
	}
	return k.probeInstead(ctx, s.VF, bound, known)
}

// probeNamed binds the named driver, and loads its module first if necessary.
func (k *Kernel) probeNamed(ctx context.Context, addr vf.PCIAddr, driver string) error {
	if err := k.setOverride(addr, driver); err != nil {
		return err
	}
	if !fileExists(filepath.Join(k.sys.root, "bus/pci/drivers", driver)) {
		if err := loadModule(ctx, driver); err != nil {
			return err
		}
	}
	return k.writeProbe(addr, driver)
}

// probeInstead binds one of the known drivers in place of the bound one, which makes no netdevice:
// vfio-pci binds to each model that its parameter ids= or its file new_id names, and the kernel lets
// it if it was registered before the netdevice driver. The name of the known driver stays in
// driver_override, so that the next probe finds it at once.
func (k *Kernel) probeInstead(ctx context.Context, addr vf.PCIAddr, bound string, known []string) error {
	errs := []error{fmt.Errorf("the kernel bound %s to it in place of a driver that makes a netdevice: take its model out of the parameter ids= of %s", bound, bound)}
	for _, driver := range known {
		err := k.unbindDriver(step.Unbind{VF: addr})
		if err == nil {
			err = k.probeNamed(ctx, addr, driver)
		}
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// probeDefault lets the kernel choose the driver, or one of the known drivers if driver_override has
// its name. If the kernel has no driver for the device, probeDefault loads the module by the device's
// alias, as udev would have done, and repeats the probe.
func (k *Kernel) probeDefault(ctx context.Context, pf, addr vf.PCIAddr, known []string) (err error) {
	override, err := k.readOverride(addr)
	if err == nil && !slices.Contains(known, override) {
		err = k.setOverride(addr, "")
	}
	if err != nil {
		return err
	}
	giveBack, err := k.borrowAutoprobe(pf)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, giveBack()) }()
	first := k.writeProbe(addr, "")
	if !errors.Is(first, errNotBound) {
		return first
	}
	alias, err := readLine(k.sys.pciPath(addr, "modalias"))
	if err != nil {
		return err
	}
	if err := loadModule(ctx, alias); err != nil {
		return errors.Join(first, err)
	}
	return k.writeProbe(addr, "")
}

// errNotBound says that the kernel probed the device and no driver is bound to it.
var errNotBound = errors.New("no driver bound to it; dmesg says why its probe failed")

// writeProbe writes drivers_probe and checks the driver. The kernel probes within
// the write (bus_rescan_devices_helper).
func (k *Kernel) writeProbe(addr vf.PCIAddr, wanted string) error {
	err := k.writeSysfs(filepath.Join(k.sys.root, "bus/pci/drivers_probe"), addr.String())
	bound, readErr := linkTarget(k.sys.pciPath(addr, "driver"))
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

// setOverride restricts which driver may bind: only the named driver, or for "" any that supports
// the device. A write of an empty line clears the override (driver_set_override).
func (k *Kernel) setOverride(addr vf.PCIAddr, driver string) error {
	have, err := k.readOverride(addr)
	if err != nil || have == driver {
		return err
	}
	return k.writeSysfs(k.sys.pciPath(addr, "driver_override"), driver+"\n")
}

// readOverride returns the only driver that may bind, or "" if any may.
func (k *Kernel) readOverride(addr vf.PCIAddr) (string, error) {
	have, err := readLine(k.sys.pciPath(addr, "driver_override"))
	if have == "(null)" {
		have = ""
	}
	return have, err
}

// loadModule loads a module by its name or alias.
func loadModule(ctx context.Context, name string) error {
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
		n, ok, err := k.sys.findNetdev(addr)
		if ok || err != nil {
			return n, err
		}
		if err := udev.awaitEvent(ctx); err != nil {
			if ctx.Err() != nil {
				driver, _ := linkTarget(k.sys.pciPath(addr, "driver")) // only for a message
				return n, fmt.Errorf("driver %s made no netdevice in the host's netns: %w", driver, waitError(ctx))
			}
			return n, err
		}
	}
}

// unbindDriver takes the driver away. The kernel removes the netdevice within the write, even if it
// is in the netns of a pod.
func (k *Kernel) unbindDriver(s step.Unbind) error {
	if _, err := k.sys.readFunction(s.VF); errors.Is(err, vf.ErrNotFound) {
		return err
	}
	err := k.writeSysfs(k.sys.pciPath(s.VF, "driver/unbind"), s.VF.String())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		err = nil // no driver was bound, or another process unbound it first
	}
	if err != nil {
		return err
	}
	bound, err := linkTarget(k.sys.pciPath(s.VF, "driver"))
	if err == nil && bound != "" {
		return fmt.Errorf("driver %s is still bound", bound)
	}
	return err
}

// resetFunction resets the function (drivers/pci/pci-sysfs.c, reset_store). The kernel has the
// file reset if the function can be reset; VFs are reset by FLR.
func (k *Kernel) resetFunction(s step.Reset) error {
	if _, err := k.sys.readFunction(s.VF); errors.Is(err, vf.ErrNotFound) {
		return err
	}
	err := k.writeSysfs(k.sys.pciPath(s.VF, "reset"), "1")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTTY) {
		return fmt.Errorf("%w: the function has no reset", vf.ErrUnable)
	}
	return err
}
