package fake

import "github.com/culvert-net/culvert/internal/vf"

// ResetPF resets a PF whose VFs stay, as harshly as a driver may. The port loses its link for a
// moment, and the PF forgets its settings for its VFs. The interfaces of the VFs go down, lose
// their addresses, and get their first MTU again.
func (k *Kernel) ResetPF(a vf.PCIAddr) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.notifyWatchers()
	p, err := k.findPF(a)
	if err != nil {
		return err
	}
	p.resetLink()
	for i, f := range p.vfs {
		f.Admin, f.rate = k.profile.newAdmin(p.PCI, i), 0
		if f.Link != nil {
			f.Link.MTU, f.Link.Carrier = 1500, false
			stripLink(f.Link)
		}
	}
	k.chooseActives()
	return nil
}

// SetMailbox sets whether a PF answers its VFs. While it does not, interfaces of its VFs have no
// carrier, and a VF driver that binds makes up a MAC address.
func (k *Kernel) SetMailbox(a vf.PCIAddr, answers bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.notifyWatchers()
	p, err := k.findPF(a)
	if err != nil {
		return err
	}
	p.mute = !answers
	return nil
}
