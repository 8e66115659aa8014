package cni

import (
	"fmt"

	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/vf"
)

// checkBondName refuses the name of a bond whose members' names would be too long.
func checkBondName(name string, b *vf.Bond) error {
	if b == nil || len(name) <= vf.LongestBondName {
		return nil
	}
	return fmt.Errorf("%w CNI_IFNAME %s: a bond has at most %d bytes, since its members are named %s and so on",
		errEnvironment, excerpt.Quote(name), vf.LongestBondName, vf.MemberName("net1", 0))
}

// formatBond writes the CNI result of a bond. Its one interface is the bond's. The members are left
// out, since meta plugins take each interface of a result for one that the pod may use. VFs for
// vfio are entries of their own, the first one under the interface's name, by which the
// network-status finds its MAC address and MTU.
func formatBond(c config.Config, b attach.Bonded, name, netns string) ([]byte, error) {
	first := b.Members[0]
	if first.Lease.Wanted.Driver != vf.DriverVFIO {
		first.Lease.Wanted.Interface, first.Lease.LinkMAC, first.Lease.MTU = name, b.MAC, b.MTU
		entry := interfaceEntry(first, netns, c.Version)
		entry.PciID = ""
		return formatLease(c, first.Lease, entry)
	}
	var entries []*current.Interface
	for i, m := range b.Members {
		if i == 0 {
			m.Lease.Wanted.Interface = name
		}
		entries = append(entries, interfaceEntry(m, netns, c.Version))
	}
	return formatLease(c, first.Lease, entries...)
}
