package deviceplugin

import (
	"cmp"
	"maps"
	"slices"

	"github.com/culvert-net/culvert/internal/vf"
)

// preferDevices chooses size of the available devices: all of must, then free ones before those
// whose last pod is not gone yet, and those of sound PFs before those of doubtful ones, on as few
// NUMA nodes as there can be, and there spread over the PFs, so that two VFs of one pod are on two
// wires and load is spread as alloc.Choose does it. The SR-IOV network device plugin has no
// preference, or packs by address (pkg/resources/allocator.go), which puts both VFs of a bond on
// one wire. It returns nil if there are fewer devices than size, or if a device of must is not
// known.
//
// If a network of the pool has a bond, none of these rules leaves out the VFs without which the bond
// has too few links: its attach would be refused. A pod that asks for fewer VFs has no bond.
func preferDevices(devices []device, available, must []vf.PCIAddr, size int, bond *vf.Bond) []vf.PCIAddr {
	if bond != nil && size < bond.Links {
		bond = nil
	}
	byPCI := make(map[vf.PCIAddr]device, len(devices))
	for _, d := range devices {
		byPCI[d.pci] = d
	}
	var chosen, rest []device
	for _, a := range must {
		d, ok := byPCI[a]
		if !ok {
			return nil
		}
		chosen = append(chosen, d)
		delete(byPCI, a)
	}
	for _, a := range available {
		if d, ok := byPCI[a]; ok {
			rest = append(rest, d)
			delete(byPCI, a)
		}
	}
	missing := size - len(chosen)
	if missing < 0 || missing > len(rest) {
		return nil
	}
	for _, isLast := range []func(device) bool{
		func(d device) bool { return !d.free },
		func(d device) bool { return d.doubtful },
	} {
		first := slices.DeleteFunc(slices.Clone(rest), isLast)
		if len(first) >= missing && countLinks(bond, chosen, first) >= countLinks(bond, chosen, rest) {
			rest = first
		}
	}
	rest = onNodesForBond(chosen, rest, missing, bond)
	out := slices.Clone(must)
	for range missing {
		next := spreadNext(chosen, rest, bond)
		chosen = append(chosen, rest[next])
		out = append(out, rest[next].pci)
		rest = slices.Delete(rest, next, next+1)
	}
	return out
}

// onFewestNodes returns the devices of rest on the NUMA nodes of chosen and, if these are too few,
// on as few other nodes as possible: those with most devices first.
func onFewestNodes(chosen, rest []device, missing int) []device {
	count := map[int]int{}
	for _, d := range rest {
		count[d.numa]++
	}
	taken := map[int]bool{}
	for _, d := range chosen {
		taken[d.numa] = true
		missing -= count[d.numa]
		delete(count, d.numa)
	}
	nodes := slices.SortedFunc(maps.Keys(count), func(a, b int) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	for _, n := range nodes {
		if missing <= 0 {
			break
		}
		taken[n] = true
		missing -= count[n]
	}
	return slices.DeleteFunc(slices.Clone(rest), func(d device) bool { return !taken[d.numa] })
}

// onNodesForBond returns the devices of onFewestNodes, unless a bond has fewer links on these nodes
// than on all. Then it returns the devices of one node that has enough devices and links, or else
// all of rest.
func onNodesForBond(chosen, rest []device, missing int, bond *vf.Bond) []device {
	links := countLinks(bond, chosen, rest)
	near := onFewestNodes(chosen, rest, missing)
	if countLinks(bond, chosen, near) >= links {
		return near
	}
	if len(chosen) > 0 {
		return rest
	}
	nodes := map[int][]device{}
	for _, d := range rest {
		nodes[d.numa] = append(nodes[d.numa], d)
	}
	for _, n := range slices.Sorted(maps.Keys(nodes)) {
		if len(nodes[n]) >= missing && countLinks(bond, nodes[n]) >= links {
			return nodes[n]
		}
	}
	return rest
}

// countLinks returns how many links of a bond the devices can be: at most one of each part that its
// VFs must not share, and none without a VF on the primary PF. Without a bond it returns 0.
func countLinks(bond *vf.Bond, parts ...[]device) int {
	if bond == nil {
		return 0
	}
	devices := slices.Concat(parts...)
	if !slices.ContainsFunc(devices, func(d device) bool { return bond.PrefersPF(d.pf) }) {
		return 0
	}
	if bond.AntiAffinity == vf.ApartNone {
		return min(bond.Links, len(devices))
	}
	pfs := make([]vf.PF, len(devices))
	for i, d := range devices {
		pfs[i] = d.pf
	}
	return min(bond.Links, bond.AntiAffinity.CountApart(pfs))
}

// spreadNext returns the index in rest of the next device: one on the PF with fewest devices in
// chosen, then one on the PF with most devices left, then the one given back longest ago.
func spreadNext(chosen, rest []device, bond *vf.Bond) int {
	have, left := map[vf.PCIAddr]int{}, map[vf.PCIAddr]int{}
	for _, d := range chosen {
		have[d.pf.PCI]++
	}
	for _, d := range rest {
		left[d.pf.PCI]++
	}
	best := 0
	for i, d := range rest {
		b := rest[best]
		if cmp.Or(
			compareForBond(d, b, chosen, bond),
			cmp.Compare(have[d.pf.PCI], have[b.pf.PCI]),
			cmp.Compare(left[b.pf.PCI], left[d.pf.PCI]), d.released.Compare(b.released), d.pci.Compare(b.pci),
		) < 0 {
			best = i
		}
	}
	return best
}

// compareForBond compares two devices for the next link of a bond. First comes the device that
// shares the part of the bond's anti-affinity with fewer chosen devices, then the one on the
// primary PF if no chosen device is. Then free devices come first, then those of sound PFs, then
// those of other PFs and cards. Without a bond it returns 0.
func compareForBond(a, b device, chosen []device, bond *vf.Bond) int {
	if bond == nil {
		return 0
	}
	count := func(d device, what vf.AntiAffinity) (n int) {
		for _, c := range chosen {
			if what.SharedPart(c.pf, d.pf) != "" {
				n++
			}
		}
		return n
	}
	hasPrimary := slices.ContainsFunc(chosen, func(c device) bool { return bond.PrefersPF(c.pf) })
	isLater := func(d device) (n int) {
		for bit, later := range []bool{d.doubtful, !d.free, !hasPrimary && !bond.PrefersPF(d.pf)} {
			if later {
				n |= 1 << bit
			}
		}
		return n
	}
	return cmp.Or(
		cmp.Compare(count(a, bond.AntiAffinity), count(b, bond.AntiAffinity)),
		cmp.Compare(isLater(a), isLater(b)),
		cmp.Compare(count(a, vf.ApartPF), count(b, vf.ApartPF)),
		cmp.Compare(count(a, vf.ApartNIC), count(b, vf.ApartNIC)),
	)
}
