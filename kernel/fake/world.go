package fake

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/vf"
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
	for _, p := range k.pfs {
		for _, f := range p.vfs {
			if f.Link == nil || f.Link.Netns != path {
				continue
			}
			name := f.Link.Name
			if k.named("", name) != nil {
				name = fmt.Sprintf("dev%d", f.Link.Index)
			}
			if k.altnameTaken(f, "") { // the kernel takes it away
				f.setAttribute(altnames, "")
			}
			k.shown++
			f.Link.Netns, f.Link.Name, f.Link.Up, f.Link.Addrs, f.Link.Routes = "", name, false, nil, nil
		}
	}
	k.changed()
}

// Cable plugs a cable in or pulls it.
func (k *Kernel) Cable(pf vf.PCIAddr, in bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p, err := k.pf(pf); err == nil {
		p.cable = in
	}
	k.changed()
}

// Reboot takes everything away that a reboot takes: VFs, netns, admin state.
func (k *Kernel) Reboot() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.netns = map[string]bool{"": true}
	for _, p := range k.pfs {
		p.reset()
	}
}

// Meddle changes a VF behind Culvert's back.
func (k *Kernel) Meddle(a vf.PCIAddr, change func(*vf.State)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.changed()
	return k.onVF(a, func(f *function) error {
		change(&f.State)
		f.rate = k.profile.held(f.Admin.MaxTxRate)
		return nil
	})
}

// Open has processes, and no others, have a VF open through vfio.
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

// Shown is how many netdevices of VFs have appeared on the host so far: made there, or
// come home.
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
				f.ID.Index, f.PCI, a.MAC, a.VLAN, a.SpoofChk, a.Trust, a.RSSQuery, a.LinkState, a.MinTxRate, a.MaxTxRate, f.held(), f.Driver)
			if l := f.Link; l != nil {
				fmt.Fprintf(&b, "    link %q %s mac %s mtu %d up %t promisc %t addrs %v routes %v%s\n",
					l.Netns, l.Name, l.MAC, l.MTU, l.Up, l.Promisc, texts(l.Addrs), l.Routes, f.changed())
			}
		}
	}
	return b.String()
}

// held is the rate that the hardware keeps to, where that is not what was asked.
func (f *function) held() string {
	if f.rate == f.Admin.MaxTxRate {
		return ""
	}
	return fmt.Sprintf(" (%d)", f.rate)
}

func texts(ps []netip.Prefix) string {
	out := make([]string, len(ps))
	for i, p := range ps {
		out[i] = p.String()
	}
	return strings.Join(out, ",")
}
