package desired

import (
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// ForPF returns the wanted state of pf, with VFs resolved to a number, and whether there is one:
// the first entry that matches pf decides. If policies of one priority contradict each other about
// pf, ForPF returns the earlier wanted state, if culvertd knows it. ForPF does not judge whether pf
// is capable of it; PFSpec.Check does.
func (s Spec) ForPF(pf vf.PF) (PFSpec, bool) {
	want, managed, _ := s.decidePF(pf)
	return want, managed
}

// MayWant reports whether more may be wanted of pf than ForPF returns. Then the Spec is partial, or
// policies contradict each other about pf and culvertd does not know the earlier wanted state.
func (s Spec) MayWant(pf vf.PF) bool {
	_, managed, contested := s.decidePF(pf)
	return s.Partial || contested && !managed
}

// decidePF returns what ForPF returns, and whether policies contradict each other about pf.
// Contested lists only PFs that existed at the time of Merge. If pf appeared later or was renamed,
// the rules show the contradiction, and pf is left alone.
func (s Spec) decidePF(pf vf.PF) (want PFSpec, managed, contested bool) {
	for _, c := range s.Contested {
		if c.PCI == pf.PCI {
			return c.Keep, !c.Keep.isZero(), true
		}
	}
	rules := s.decidingRules(pf)
	if len(rules) == 0 {
		return PFSpec{}, false, false
	}
	for _, r := range rules[1:] {
		if !reflect.DeepEqual(r.plainWant(pf), rules[0].plainWant(pf)) {
			return PFSpec{}, false, true
		}
	}
	return s.raiseMTU(rules[0].Want.resolveVFs(pf), pf), true, false
}

// decidingRules returns the first rule that matches pf, and the first matching rule of each other
// policy of the same priority. Rules of host.yaml precede all policies.
func (s Spec) decidingRules(pf vf.PF) (out []*PFRule) {
	for i := range s.PFs {
		r := &s.PFs[i]
		if len(out) > 0 {
			first, last := out[0], out[len(out)-1]
			if first.Policy == "" || r.Priority != first.Priority {
				break // PFs is sorted
			}
			if r.Policy == last.Policy {
				continue
			}
		}
		if r.Matches(pf) {
			out = append(out, r)
		}
	}
	return out
}

// plainWant returns the state that the rule wants of pf, without the place where it was written.
func (r PFRule) plainWant(pf vf.PF) PFSpec {
	want := r.Want.resolveVFs(pf)
	want.From = ""
	return want
}

// WhereDeclared names the place where people can change the wanted state of pf: the entry of
// host.yaml or of a NodePolicy that decides, or host.yaml where there is none.
func (s Spec) WhereDeclared(pf vf.PF) string {
	if want, ok := s.ForPF(pf); ok && want.From != "" {
		return want.From
	}
	return DefaultPath
}

// resolveVFs returns s with a number of VFs.
func (s PFSpec) resolveVFs(pf vf.PF) PFSpec {
	if s.VFs == AllVFs {
		s.VFs = pf.TotalVFs
	}
	return s
}

// Matches reports whether the entry is about pf.
func (r PFRule) Matches(pf vf.PF) bool {
	return (r.Name == "" || IsNameOf(r.Name, pf)) &&
		(r.MAC.IsZero() || r.MAC == pf.ID.MAC) &&
		(r.PCI.IsZero() || r.PCI == pf.PCI) &&
		(r.Vendor == "" || r.Vendor == pf.Vendor) &&
		(r.Device == "" || r.Device == pf.Device) &&
		(r.Driver == "" || r.Driver == pf.Driver)
}

// Unmatched returns the entries that are about none of the PFs.
func (s Spec) Unmatched(pfs []vf.PF) []PFRule {
	var all []PFRule
	for _, r := range s.PFs {
		if !slices.ContainsFunc(pfs, r.Matches) {
			all = append(all, r)
		}
	}
	return all
}

// JoinLabels names PFs for a message.
func JoinLabels(pfs []vf.PF) string {
	if len(pfs) == 0 {
		return "none that can have VFs"
	}
	var all []string
	for _, pf := range pfs {
		all = append(all, pf.Label())
	}
	return strings.Join(all, ", ")
}

// String describes the PFs that the entry matches: "name enp1s0f0, driver igb".
func (r PFRule) String() string {
	var all []string
	for _, c := range []struct{ key, value string }{
		{"name", r.Name}, {"mac", r.MAC.String()}, {"pciAddress", r.PCI.String()},
		{"vendor", r.Vendor}, {"device", r.Device}, {"driver", r.Driver},
	} {
		if c.value != "" {
			all = append(all, c.key+" "+c.value)
		}
	}
	return strings.Join(all, ", ")
}

// selectsByName reports whether pfNames select a VF of a PF. For the device plugin a value is the
// whole name in any case, and the first value that names the PF decides (deviceSelectors.go, getItem).
func (p Pool) selectsByName(names []Part[string], pf vf.PF, index int) bool {
	if !p.AsBound {
		return anyOf(names, func(w Part[string]) bool { return IsNameOf(w.PF, pf) && w.containsVF(index) })
	}
	return firstOf(names, func(w Part[string]) bool {
		return slices.ContainsFunc(pf.Names(), func(name string) bool { return strings.EqualFold(w.PF, name) })
	}, index)
}

// selectsByRoot reports whether rootDevices select a VF of a PF. For the device plugin the first
// value with the PF's address decides.
func (p Pool) selectsByRoot(roots []Part[vf.PCIAddr], pf vf.PF, index int) bool {
	if !p.AsBound {
		return anyOf(roots, func(w Part[vf.PCIAddr]) bool { return w.PF == pf.PCI && w.containsVF(index) })
	}
	return firstOf(roots, func(w Part[vf.PCIAddr]) bool { return w.PF == pf.PCI }, index)
}

// firstOf reports whether the first part about a PF has a VF. An empty list asks nothing.
func firstOf[T any](parts []Part[T], isAbout func(Part[T]) bool, index int) bool {
	i := slices.IndexFunc(parts, isAbout)
	return len(parts) == 0 || i >= 0 && parts[i].containsVF(index)
}

// IsNameOf reports whether a path.Match pattern matches a name of a PF: that of its netdevice, of the
// netdevice that has its link, or an alternative name of these.
func IsNameOf(pattern string, pf vf.PF) bool {
	return slices.ContainsFunc(pf.Names(), func(name string) bool {
		ok, err := path.Match(pattern, name)
		return err == nil && ok
	})
}

// PoolOf returns the pool that a VF of pf is in: the first that matches, so
// that a VF is in one pool at most. v may be the zero State for a VF that is
// not made yet; its device ID and netdevice driver then count as matching and
// its PCI address does not, so the answer is a forecast.
func (s Spec) PoolOf(pf vf.PF, index int, v vf.State) (Pool, bool) {
	for _, p := range s.Pools {
		if p.matchesVF(pf, index, v) {
			return p, true
		}
	}
	return Pool{}, false
}

// Also returns the further pools that match a VF. The VF would be in one of them if the earlier
// ones did not exist.
func (s Spec) Also(pf vf.PF, index int, v vf.State) []Pool {
	var all []Pool
	for _, p := range s.Pools {
		if p.matchesVF(pf, index, v) {
			all = append(all, p)
		}
	}
	if len(all) < 2 {
		return nil
	}
	return all[1:]
}

func (p Pool) matchesVF(pf vf.PF, index int, v vf.State) bool {
	_, ok := p.SelectorOf(pf, index, v)
	return ok
}

// SelectsOneOf reports whether the pool selects one of the first count VFs of a PF that has none yet. It
// tries the indexes at which the result may differ, since a node may report any count.
func (p Pool) SelectsOneOf(pf vf.PF, count int) bool {
	indexes := []int{0}
	for _, s := range p.Selectors {
		for _, part := range s.PFNames {
			indexes = appendFirsts(indexes, part.Indexes)
		}
		for _, part := range s.RootDevices {
			indexes = appendFirsts(indexes, part.Indexes)
		}
	}
	return slices.ContainsFunc(indexes, func(i int) bool { return i < count && p.matchesVF(pf, i, vf.State{}) })
}

func appendFirsts(indexes []int, ranges []Range) []int {
	for _, r := range ranges {
		indexes = append(indexes, r.First)
	}
	return indexes
}

// SelectorOf returns the first of the pool's selectors that matches a VF, and
// whether the pool does. A pool without selectors matches each VF by the zero Selector. A pool that
// is not served matches no VF.
func (p Pool) SelectorOf(pf vf.PF, index int, v vf.State) (Selector, bool) {
	if p.Unserved != "" {
		return Selector{}, false
	}
	if len(p.Selectors) == 0 {
		return Selector{}, true
	}
	for _, s := range p.Selectors {
		if s.matchesVF(p, pf, index, v) {
			return s, true
		}
	}
	return Selector{}, false
}

func (s Selector) matchesVF(p Pool, pf vf.PF, index int, v vf.State) bool {
	vendor := v.Vendor
	if vendor == "" {
		vendor = pf.Vendor // a VF has its PF's (PCI-SIG SR-IOV 1.1, 3.4.1.1)
	}
	return anyOf(s.Vendors, func(w string) bool { return w == vendor }) &&
		anyOf(s.Devices, func(w string) bool { return v.Device == "" || w == v.Device }) &&
		anyOf(s.Drivers, driverMatcher(p, pf, v)) &&
		anyOf(s.PCIAddresses, func(w vf.PCIAddr) bool { return w == v.PCI }) &&
		anyOf(s.ACPIIndexes, func(w uint32) bool { return w == v.ACPIIndex }) &&
		p.selectsByName(s.PFNames, pf, index) &&
		p.selectsByRoot(s.RootDevices, pf, index) &&
		(!s.IsRDMA || hasRDMA(p, pf, v))
}

// hasRDMA reports whether a VF has an RDMA device, or will have one with the netdevice driver
// that it is about to get: while none is bound, the PF's device says.
func hasRDMA(p Pool, pf vf.PF, v vf.State) bool {
	awaited := v.Driver == "" || v.Driver == vf.DriverVFIO && !p.AsBound
	return v.RDMA != nil || awaited && pf.RDMA
}

// anyOf reports whether an entry of a list matches. An empty list asks nothing, so it matches.
func anyOf[T any](list []T, match func(T) bool) bool {
	return len(list) == 0 || slices.ContainsFunc(list, match)
}
