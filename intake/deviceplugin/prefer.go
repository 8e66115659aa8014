package deviceplugin

import (
	"cmp"
	"maps"
	"slices"

	"github.com/culvert-net/culvert/vf"
)

// preferDevices chooses size of the available devices: all of must, then free ones
// before those whose last pod is not gone yet, and those of sound PFs before those of
// doubtful ones, on as few
// NUMA nodes as there can be, and there spread over the PFs, so that two VFs of
// one pod are on two wires and load is spread as alloc.Choose does it. The SR-IOV
// network device plugin has no preference, or packs by address
// (pkg/resources/allocator.go), which puts both VFs of a bond on one wire. Fewer
// than size, or a must that is not known, have no answer: nil.
//
// If a network of the pool has a bond, the NUMA nodes have VFs of as many PFs as the bond has
// links, if there are such.
func preferDevices(devices []device, available, must []vf.PCIAddr, size int, bond *vf.Bond) []vf.PCIAddr {
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
	if free := slices.DeleteFunc(slices.Clone(rest), func(d device) bool { return !d.free }); len(free) >= missing {
		rest = free
	}
	if sound := slices.DeleteFunc(slices.Clone(rest), func(d device) bool { return d.doubtful }); len(sound) >= missing {
		rest = sound
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

// onFewestNodes leaves of rest what is on the NUMA nodes that chosen is on
// already and, where that is not enough, on as few others as can be: those with
// most devices first.
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

// onNodesForBond is onFewestNodes, unless these nodes have VFs of fewer PFs than the bond has
// links. Then it leaves the VFs of one other node that has enough of both, or else all of rest.
func onNodesForBond(chosen, rest []device, missing int, bond *vf.Bond) []device {
	near := onFewestNodes(chosen, rest, missing)
	if bond == nil || bond.AntiAffinity != vf.ApartNUMA && countPFs(chosen, near) >= bond.Links {
		return near
	}
	if bond.AntiAffinity == vf.ApartNUMA || len(chosen) > 0 {
		return rest
	}
	nodes := map[int][]device{}
	for _, d := range rest {
		nodes[d.numa] = append(nodes[d.numa], d)
	}
	for _, n := range slices.Sorted(maps.Keys(nodes)) {
		if len(nodes[n]) >= missing && countPFs(nodes[n], nil) >= bond.Links {
			return nodes[n]
		}
	}
	return rest
}

// countPFs counts the PFs of devices.
func countPFs(a, b []device) int {
	pfs := map[vf.PCIAddr]bool{}
	for _, d := range slices.Concat(a, b) {
		pfs[d.pf] = true
	}
	return len(pfs)
}

// cardOf returns the address of the first function of a device's card.
func cardOf(d device) vf.PCIAddr {
	a := d.pf
	a.Function = 0
	return a
}

// spreadNext returns which of rest comes next: on the PF that chosen has fewest of, then on the PF
// with most left, then the one given back longest ago. Of two PFs of which chosen has as many, a
// bond takes the one on another card, and before that on another NUMA node if it wants that.
func spreadNext(chosen, rest []device, bond *vf.Bond) int {
	have, left, cards, nodes := map[vf.PCIAddr]int{}, map[vf.PCIAddr]int{}, map[vf.PCIAddr]int{}, map[int]int{}
	for _, d := range chosen {
		have[d.pf]++
		if bond != nil {
			cards[cardOf(d)]++
		}
		if bond != nil && bond.AntiAffinity == vf.ApartNUMA {
			nodes[d.numa]++
		}
	}
	for _, d := range rest {
		left[d.pf]++
	}
	best := 0
	for i, d := range rest {
		b := rest[best]
		if cmp.Or(
			cmp.Compare(have[d.pf], have[b.pf]), cmp.Compare(nodes[d.numa], nodes[b.numa]), cmp.Compare(cards[cardOf(d)], cards[cardOf(b)]),
			cmp.Compare(left[b.pf], left[d.pf]), d.released.Compare(b.released), d.pci.Compare(b.pci),
		) < 0 {
			best = i
		}
	}
	return best
}
