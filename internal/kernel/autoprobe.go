package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// autoprobe switches sriov_drivers_autoprobe of one PF on while step Bind needs it.
//
// While it is off, the kernel refuses every probe of a VF, even if a program requests it.
// pci_device_can_probe (drivers/pci/pci-driver.c) demands !is_virtfn, the PF's drivers_autoprobe,
// or a driver_override. A write to drivers_probe then succeeds and binds nothing, and a write to a
// driver's bind file returns ENODEV (TestLabBindWithAutoprobeOff). An override needs the driver's
// name, which the kernel does not report before a bind. So autoprobe is on during a Bind, and
// afterwards as it was.
type autoprobe struct {
	mu    sync.Mutex // guards what follows and the file
	users int
	after bool // the value to write when the last user is done
}

// autoprobes has one autoprobe for each PF, so that a PF whose file hangs delays only its own
// binds.
type autoprobes struct {
	mu sync.Mutex // guards of
	of map[vf.PCIAddr]*autoprobe
}

func (a *autoprobes) autoprobeOf(pf vf.PCIAddr) *autoprobe {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[pf] == nil {
		a.of[pf] = &autoprobe{}
	}
	return a.of[pf]
}

func (k *Kernel) setAutoprobe(s step.SetAutoprobe) error {
	a := k.autoprobe.autoprobeOf(s.PF)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.users > 0 {
		a.after = s.On
		return nil // giveBack writes the value when the binds are done
	}
	return k.writeAutoprobe(s.PF, s.On)
}

func (k *Kernel) readAutoprobe(pf vf.PCIAddr) (bool, error) {
	s, err := readLine(k.sys.pciPath(pf, "sriov_drivers_autoprobe"))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := k.sys.readFunction(pf); errors.Is(err, vf.ErrNotFound) {
			return false, err
		}
		return false, fmt.Errorf("%w: this kernel has no sriov_drivers_autoprobe", vf.ErrUnable)
	}
	return s == "1", err
}

func (k *Kernel) writeAutoprobe(pf vf.PCIAddr, on bool) error {
	have, err := k.readAutoprobe(pf)
	if err != nil || have == on {
		return err
	}
	value := map[bool]string{true: "1", false: "0"}[on]
	if err := k.writeSysfs(k.sys.pciPath(pf, "sriov_drivers_autoprobe"), value); err != nil {
		return err
	}
	if have, err = k.readAutoprobe(pf); err == nil && have != on {
		return fmt.Errorf("sriov_drivers_autoprobe is %v after %s was written", have, value)
	}
	return err
}

// borrowAutoprobe switches autoprobe on until the returned function is called, for several users
// at once.
func (k *Kernel) borrowAutoprobe(pf vf.PCIAddr) (giveBack func() error, err error) {
	a := k.autoprobe.autoprobeOf(pf)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.users == 0 {
		a.after, err = k.readAutoprobe(pf)
		if errors.Is(err, vf.ErrUnable) {
			return func() error { return nil }, nil // always on
		}
		if err != nil {
			return nil, err
		}
		if err := k.writeAutoprobe(pf, true); err != nil {
			return nil, err
		}
	}
	a.users++
	return func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.users--; a.users > 0 {
			return nil
		}
		return k.writeAutoprobe(pf, a.after)
	}, nil
}
