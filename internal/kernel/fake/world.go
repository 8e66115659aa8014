package fake

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// AddNetns makes a netns.
func (k *Kernel) AddNetns(path string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.netns[path] = true
}

// DelNetns ends a netns. Its netdevices go home to the host, down and bare,
// under the name they had, or devN where that is taken (net/core/dev.c,
// default_device_exit_net).
func (k *Kernel) DelNetns(path string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.netns, path)
	k.delBonds(func(b *bond) bool { return b.link.Netns == path })
	k.guards = slices.DeleteFunc(k.guards, func(t table) bool { return t.netns == path })
	for _, p := range k.pfs {
		for _, f := range p.vfs {
			if f.Link == nil || f.Link.Netns != path {
				continue
			}
			name := f.Link.Name
			if k.isNamed("", name, nil) {
				name = fmt.Sprintf("dev%d", f.Link.Index)
			}
			if k.altnameTaken(f, "") { // the kernel takes it away
				f.setAttribute(altnames, "")
			}
			k.shown++
			f.Link.Netns, f.Link.Name = "", name
			stripLink(f.Link)
		}
	}
	k.notifyWatchers()
}

// SetElsewhere gives an address to another machine on the segment, or takes it away from that
// machine.
func (k *Kernel) SetElsewhere(a netip.Addr, there bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.elsewhere == nil {
		k.elsewhere = map[netip.Addr]bool{}
	}
	k.elsewhere[a] = there
}

// Cable plugs a cable in or pulls it.
func (k *Kernel) Cable(pf vf.PCIAddr, in bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p, err := k.findPF(pf); err == nil {
		p.cable = in
	}
	k.chooseActives()
	k.notifyWatchers()
}

// TakePFDown takes the interface of a PF down, as "ip link set down" does. The step SetPFUp brings
// it up.
func (k *Kernel) TakePFDown(pf vf.PCIAddr) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p, err := k.findPF(pf); err == nil {
		p.up = false
	}
	k.notifyWatchers()
}

// Reboot removes everything that a reboot of the host ends: VFs, netns, admin state.
func (k *Kernel) Reboot() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.netns, k.guards = map[string]bool{"": true}, nil
	k.bonds = nil
	for _, p := range k.pfs {
		p.resetPF()
	}
	k.masters = nil
}

// Meddle changes a VF outside Culvert.
func (k *Kernel) Meddle(a vf.PCIAddr, change func(*vf.State)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.notifyWatchers()
	return k.onVF(a, func(f *function) error {
		change(&f.State)
		if f.bond != nil && (f.Link == nil || f.Link.Netns != f.bond.link.Netns) {
			f.leaveBond()
		}
		f.rate = k.profile.effectiveRate(f.Admin.MaxTxRate)
		return nil
	})
}

// Open sets the processes that have a VF open through vfio.
func (k *Kernel) Open(a vf.PCIAddr, by ...vf.Process) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.onVF(a, func(f *function) error {
		if f.Driver != vf.DriverVFIO && len(by) > 0 {
			return fmt.Errorf("VF %s is bound to %q: %w", a, f.Driver, vf.ErrUnable)
		}
		f.users = by
		return nil
	})
}

// Occupy makes the network of the host use a VF in a way that its state does not show, such as by a
// VLAN on top of it. An empty text ends the use.
func (k *Kernel) Occupy(a vf.PCIAddr, how string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.notifyWatchers()
	return k.onVF(a, func(f *function) error {
		f.use = how
		return nil
	})
}

// Shown returns how many netdevices of VFs have appeared on the host so far, because they were made
// there or returned to it.
func (k *Kernel) Shown() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.shown
}

// Netns lists the netns that exist, but for the host's.
func (k *Kernel) Netns() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []string
	for ns := range k.netns {
		if ns != "" {
			out = append(out, ns)
		}
	}
	slices.Sort(out)
	return out
}

func (k *Kernel) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var b strings.Builder
	for _, p := range k.pfs {
		fmt.Fprintf(&b, "PF %s %s mtu %d up %t carrier %t autoprobe %s vfs %d\n",
			p.name, p.ID, p.mtu, p.up, p.cable, p.Autoprobe, p.numVFs)
		for _, f := range p.vfs {
			a := f.Admin
			fmt.Fprintf(&b, "  vf %d %s mac %s vlan %s spoofchk %s trust %s rss %s link_state %s rates %d-%d%s driver %q\n",
				f.ID.Index, f.PCI, a.MAC, a.VLAN, a.SpoofChk, a.Trust, a.RSSQuery, a.LinkState, a.MinTxRate, a.MaxTxRate, f.roundedRate(), f.Driver)
			if l := f.Link; l != nil {
				fmt.Fprintf(&b, "    link %q %s mac %s mtu %d up %t promisc %t addrs %v%s routes %v%s\n",
					l.Netns, l.Name, l.MAC, l.MTU, l.Up, l.Promisc, joinPrefixes(l.Addrs), describeDetection(l), l.Routes, f.describeChanges())
			}
		}
	}
	for _, bond := range k.bonds {
		b.WriteString(bond.String())
	}
	for _, m := range k.masters {
		b.WriteString(m.String())
	}
	for _, t := range k.guards {
		fmt.Fprintf(&b, "guard of %s in %s at %s: %s\n", t.pci, t.netns, t.device, t.Guard)
	}
	return b.String()
}

// roundedRate returns the rate that the hardware uses, as text. It is empty if that is the
// requested rate.
func (f *function) roundedRate() string {
	if f.rate == f.Admin.MaxTxRate {
		return ""
	}
	return fmt.Sprintf(" (%d)", f.rate)
}

// describeDetection lists the addresses that cannot be used.
func describeDetection(l *vf.Link) (out string) {
	if len(l.Tentative) > 0 {
		out = " tentative " + joinPrefixes(l.Tentative)
	}
	if len(l.Duplicates) > 0 {
		out += " duplicates " + joinPrefixes(l.Duplicates)
	}
	return out
}

func joinPrefixes(ps []netip.Prefix) string {
	out := make([]string, len(ps))
	for i, p := range ps {
		out[i] = p.String()
	}
	return strings.Join(out, ",")
}

// Carrier reports whether a PF has carrier. A PF that is gone has none.
func (k *Kernel) Carrier(pf vf.PCIAddr) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, err := k.findPF(pf)
	return err == nil && p.up && p.cable, nil
}
