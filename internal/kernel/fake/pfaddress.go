package fake

import (
	"net/netip"
	"slices"
	"syscall"

	"github.com/culvert-net/culvert/internal/kernel/step"
	"github.com/culvert-net/culvert/internal/vf"
)

// pfAddress adds or removes an address of a PF.
func (k *Kernel) pfAddress(s step.Step) error {
	switch s := s.(type) {
	case step.AddPFAddress:
		return k.onPF(s.PF, func(p *pf) error {
			if slices.Contains(p.Addrs, s.Address) {
				return syscall.EEXIST
			}
			p.Addrs, p.OwnAddrs = append(slices.Clone(p.Addrs), s.Address), append(slices.Clone(p.OwnAddrs), s.Address)
			return nil
		})
	case step.DelPFAddress:
		return k.onPF(s.PF, func(p *pf) error {
			if !slices.Contains(p.Addrs, s.Address) {
				return syscall.EADDRNOTAVAIL
			}
			is := func(a netip.Prefix) bool { return a == s.Address }
			p.Addrs, p.OwnAddrs = slices.DeleteFunc(slices.Clone(p.Addrs), is), slices.DeleteFunc(slices.Clone(p.OwnAddrs), is)
			return nil
		})
	}
	return vf.ErrUnable
}

// AddOthersAddress adds an address to a PF as the host does.
func (k *Kernel) AddOthersAddress(a vf.PCIAddr, address netip.Prefix) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.notifyWatchers()
	return k.onPF(a, func(p *pf) error {
		p.Addrs = append(slices.Clone(p.Addrs), address)
		return nil
	})
}
