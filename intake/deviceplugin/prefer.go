package deviceplugin

import (
	"cmp"
	"maps"
	"slices"

	"github.com/culvert-net/culvert/vf"
)

// prefer chooses size of the available devices: all of must, then free ones
// before those whose last pod is not gone yet, on as few
// NUMA nodes as there can be, and there spread over the PFs, so that two VFs of
// one pod are on two wires and load is spread as alloc.Choose does it. The SR-IOV
// network device plugin has no preference, or packs by address
// (pkg/resources/allocator.go), which puts both VFs of a bond on one wire. Fewer
// than size, or a must that is not known, have no answer: nil.
func prefer(devices []device, available, must []vf.PCIAddr, size int) []vf.PCIAddr {
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
	rest = onFewestNodes(chosen, rest, missing)
	out := slices.Clone(must)
	for range missing {
		next := spread(chosen, rest)
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

// spread returns which of rest comes next: on the PF that chosen has fewest of,
// then on the PF with most left, then the one given back longest ago.
func spread(chosen, rest []device) int {
	have, left := map[vf.PCIAddr]int{}, map[vf.PCIAddr]int{}
	for _, d := range chosen {
		have[d.pf]++
	}
	for _, d := range rest {
		left[d.pf]++
	}
	best := 0
	for i, d := range rest {
		b := rest[best]
		if cmp.Or(cmp.Compare(have[d.pf], have[b.pf]), cmp.Compare(left[b.pf], left[d.pf]),
			d.released.Compare(b.released), d.pci.Compare(b.pci)) < 0 {
			best = i
		}
	}
	return best
}
