package evidence

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
)

// Carriers returns, for each interface of this network namespace that has some, the other
// interfaces that may carry its frames, so that their counters rise with its own. These are the
// interface below it, the ports of its bridge or Open vSwitch, and the other interfaces of its PF
// that have no address, such as representors of VFs.
func (r Reader) Carriers() (map[string][]string, error) {
	links, err := r.netLinks()
	if err != nil {
		return nil, err
	}
	kernel, err := netlink.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) { // an interface that comes or goes meanwhile is on no path
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	below := directlyBelow(kernel)
	for _, l := range links {
		below[l.Name] = append(below[l.Name], r.interfacesUnder(l.Name)...)
	}
	all := map[string][]string{}
	for _, l := range links {
		pf, _ := r.findParent(l.PCI)
		lower := reachAll(below, l.Name)
		for _, o := range links {
			sibling := pf != "" && o.PCI == pf && len(o.addresses) == 0
			if o.Name != l.Name && (sibling || slices.Contains(lower, o.Name)) {
				all[l.Name] = append(all[l.Name], o.Name)
			}
		}
	}
	return all, nil
}

// directlyBelow returns, for each interface, the interfaces that carry its frames by the kernel's
// list: the ports of a bridge or bond, and the interface below a VLAN, macvlan or tunnel. It does
// not read sysfs, which may be mounted in another network namespace.
func directlyBelow(links []netlink.Link) map[string][]string {
	const openVSwitch, itsPorts = "openvswitch", "ovs-system"
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	below := map[string][]string{}
	for _, l := range links {
		a := l.Attrs()
		if master := names[a.MasterIndex]; master != "" {
			below[master] = append(below[master], a.Name)
		}
		over := a.ParentIndex
		if tunnel, is := l.(*netlink.Vxlan); is {
			over = tunnel.VtepDevIndex
		}
		if l.Type() == "veth" { // its other end, which may be in another network namespace
			over = 0
		}
		if under := names[over]; under != "" {
			below[a.Name] = append(below[a.Name], under)
		}
		if l.Type() == openVSwitch && a.Name != itsPorts {
			below[a.Name] = append(below[a.Name], itsPorts)
		}
	}
	return below
}

// reachAll returns all interfaces that are below an interface, directly or not.
func reachAll(below map[string][]string, name string) (all []string) {
	for next := []string{name}; len(next) > 0; next = next[1:] {
		for _, one := range below[next[0]] {
			if one != name && !slices.Contains(all, one) {
				all, next = append(all, one), append(next, one)
			}
		}
	}
	return all
}
