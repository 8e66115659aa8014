package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/culvert-net/culvert/kernel/step"
	"github.com/culvert-net/culvert/vf"
)

// autoprobe lends sriov_drivers_autoprobe to Bind.
//
// While it is off the kernel refuses every probe of a VF, a person's as well
// as its own: pci_device_can_probe (drivers/pci/pci-driver.c) wants
// !is_virtfn, or the PF's drivers_autoprobe, or a driver_override. The last
// would need the driver's name, which nothing in the kernel tells beforehand.
// So the switch is on while a Bind is at work and then as it was.
type autoprobe struct {
	mu    sync.Mutex // guards users, and the file against Bind and SetAutoprobe at once
	users map[vf.PCIAddr]*autoprobeUse
}

type autoprobeUse struct {
	count int
	after bool // what the file says when the last user is done
}

func (k *Kernel) setAutoprobe(s step.SetAutoprobe) error {
	k.autoprobe.mu.Lock()
	defer k.autoprobe.mu.Unlock()
	if use, ok := k.autoprobe.users[s.PF]; ok {
		use.after = s.On
		if !s.On {
			return nil // written when the binds are done
		}
	}
	return k.writeAutoprobe(s.PF, s.On)
}

func (k *Kernel) readAutoprobe(pf vf.PCIAddr) (bool, error) {
	s, err := text(k.sys.pci(pf, "sriov_drivers_autoprobe"))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := k.sys.function(pf); errors.Is(err, vf.ErrNotFound) {
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
	if err := k.write(k.sys.pci(pf, "sriov_drivers_autoprobe"), value); err != nil {
		return err
	}
	if have, err = k.readAutoprobe(pf); err == nil && have != on {
		return fmt.Errorf("sriov_drivers_autoprobe reads %v after %s was written", have, value)
	}
	return err
}

// borrowAutoprobe switches autoprobe on until the returned function is called,
// for any number of users at once.
func (k *Kernel) borrowAutoprobe(pf vf.PCIAddr) (giveBack func() error, err error) {
	k.autoprobe.mu.Lock()
	defer k.autoprobe.mu.Unlock()
	use, ok := k.autoprobe.users[pf]
	if !ok {
		was, err := k.readAutoprobe(pf)
		if errors.Is(err, vf.ErrUnable) {
			return func() error { return nil }, nil // always on
		}
		if err != nil {
			return nil, err
		}
		if err := k.writeAutoprobe(pf, true); err != nil {
			return nil, err
		}
		use = &autoprobeUse{after: was}
		k.autoprobe.users[pf] = use
	}
	use.count++
	return func() error { return k.returnAutoprobe(pf, use) }, nil
}

func (k *Kernel) returnAutoprobe(pf vf.PCIAddr, use *autoprobeUse) error {
	k.autoprobe.mu.Lock()
	defer k.autoprobe.mu.Unlock()
	if use.count--; use.count > 0 {
		return nil
	}
	delete(k.autoprobe.users, pf)
	return k.writeAutoprobe(pf, use.after)
}
