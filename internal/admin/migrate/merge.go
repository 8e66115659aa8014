package migrate

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

// maxCommon bounds how many intersections of selectors Convert considers.
const maxCommon = 256

// pfSelector selects PFs as a policy of the operator does: all that is set must match.
type pfSelector struct{ name, address, vendor, device string }

// intersectPFs returns the selector of the PFs that both select, and whether there can be any.
func intersectPFs(s, other pfSelector) (pfSelector, bool) {
	ok := true
	for _, f := range []struct {
		value *string
		other string
	}{{&s.name, other.name}, {&s.address, other.address}, {&s.vendor, other.vendor}, {&s.device, other.device}} {
		ok = ok && (*f.value == "" || f.other == "" || *f.value == f.other)
		*f.value = cmp.Or(*f.value, f.other)
	}
	return s, ok
}

// isPartOf reports whether other selects every PF that s selects.
func (s pfSelector) isPartOf(other pfSelector) bool {
	both, ok := intersectPFs(s, other)
	return ok && both == s
}

// countKeys returns how many conditions the selector has.
func (s pfSelector) countKeys() (n int) {
	for _, value := range []string{s.name, s.address, s.vendor, s.device} {
		if value != "" {
			n++
		}
	}
	return n
}

// intersectLabels returns the labels of the nodes that both select, and whether there can be any.
func intersectLabels(a, b map[string]string) (map[string]string, bool) {
	out := maps.Clone(a)
	for key, value := range b {
		if have, ok := a[key]; ok && have != value {
			return nil, false
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
	}
	return out, true
}

// addCommon returns all without duplicates, and the intersections of any of them. It reports
// whether there are no more than it returns.
func addCommon[T any](all []T, intersect func(a, b T) (T, bool), same func(a, b T) bool) (out []T, complete bool) {
	for pending := slices.Clone(all); len(pending) > 0; {
		v := pending[0]
		pending = pending[1:]
		switch {
		case slices.ContainsFunc(out, func(o T) bool { return same(o, v) }):
			continue
		case len(out) >= len(all)+maxCommon:
			return out, false
		}
		for _, o := range out {
			if both, ok := intersect(o, v); ok {
				pending = append(pending, both)
			}
		}
		out = append(out, v)
	}
	return out, true
}

// pfSelectors returns what a policy selects: a selector for each combination of a name and an
// address.
func (p policy) pfSelectors() (out []pfSelector) {
	orAny := func(values []string) []string { return append(values, make([]string, max(0, 1-len(values)))...) }
	for _, name := range orAny(p.NICSelector.PFNames) {
		for _, address := range orAny(p.NICSelector.RootDevices) {
			s := pfSelector{vendor: p.NICSelector.Vendor, device: p.NICSelector.DeviceID}
			s.name, _, _ = strings.Cut(name, "#")
			s.address, _, _ = strings.Cut(address, "#")
			if !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

// selects reports whether a policy selects every PF of a selector.
func (p policy) selects(s pfSelector) bool { return slices.ContainsFunc(p.pfSelectors(), s.isPartOf) }

// sharesWith reports whether two policies of one node may be about one PF, or are about one pool.
func (p policy) sharesWith(other policy) bool {
	return p.ResourceName == other.ResourceName || slices.ContainsFunc(p.pfSelectors(), func(s pfSelector) bool {
		return slices.ContainsFunc(other.pfSelectors(), func(o pfSelector) bool {
			_, ok := intersectPFs(s, o)
			return ok
		})
	})
}

// part is the range of a PF's VFs that a policy gives to a resource: the operator's VfGroup.
type part struct {
	resource    string
	first, last int
}

// partOf returns a policy's part of the PFs of a selector.
func (p policy) partOf(s pfSelector) part {
	out := part{p.ResourceName, 0, p.NumVFs - 1}
	for _, name := range p.NICSelector.PFNames {
		if pf, indexes, _ := strings.Cut(name, "#"); pf == s.name {
			low, high, _ := strings.Cut(indexes, "-")
			first, err1 := strconv.Atoi(low)
			last, err2 := strconv.Atoi(high)
			if err1 == nil && err2 == nil {
				out.first, out.last = first, last
			}
			break
		}
	}
	return out
}

// entry has the number of VFs that the operator wants for the PFs of a selector.
type entry struct {
	pfSelector
	vfs int
}

// rule returns the entry of pfs. No policy of the operator waits for carrier.
func (e entry) rule() v1alpha1.PFRule {
	return v1alpha1.PFRule{
		Name: e.name, PCIAddress: e.address, Vendor: e.vendor, Device: e.device,
		VFs: intstr.FromInt32(int32(e.vfs)), NeedCarrier: new(bool),
	}
}

// mergePF merges the policies of a node for the PFs of a selector as the operator does. The
// operator applies them from the lowest priority to the highest, and those of one priority by their
// names. A policy that leaves the parts of earlier ones as they are, or has the priority of the
// policy before it, gives the PF the larger number of VFs and the larger MTU. Otherwise its own
// replace those of the earlier ones (operator, api/v1/helper.go, mergeConfigs).
func mergePF(policies []policy, s pfSelector) entry {
	ordered := slices.SortedStableFunc(slices.Values(policies), func(a, b policy) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.object.Name, b.object.Name))
	})
	out := entry{pfSelector: s}
	var parts []part
	for i, p := range ordered {
		if p.ExternallyManaged || !p.selects(s) {
			continue
		}
		own := p.partOf(s)
		kept := slices.DeleteFunc(slices.Clone(parts), func(o part) bool {
			return o.resource == own.resource || o.first <= own.last && own.first <= o.last
		})
		if len(kept) == 0 && (i == 0 || ordered[i-1].Priority != p.Priority) {
			out.vfs = 0
		}
		out.vfs = max(out.vfs, p.NumVFs)
		kept = append(kept, own)
		parts = kept
	}
	return out
}

// mergeEntries merges the policies of a node as the operator does. It returns an entry for each set
// of PFs for which the operator may want other values. Narrow selectors come first, since a PF
// takes the first entry that matches it. It reports whether no set is left out.
func mergeEntries(policies []policy) ([]entry, bool) {
	var all []pfSelector
	for _, p := range policies {
		if !p.ExternallyManaged {
			all = append(all, p.pfSelectors()...)
		}
	}
	all, complete := addCommon(all, intersectPFs, func(a, b pfSelector) bool { return a == b })
	slices.SortStableFunc(all, func(a, b pfSelector) int { return b.countKeys() - a.countKeys() })
	var out []entry
	for _, s := range all {
		out = append(out, mergePF(policies, s))
	}
	return out, complete
}

// dropImplied leaves out the entries whose PFs get the same by the next entry that matches them.
func dropImplied(all []entry) []entry {
	var out []entry
	for _, e := range slices.Backward(all) {
		next := slices.IndexFunc(out, func(o entry) bool { return e.isPartOf(o.pfSelector) })
		if next < 0 || out[next].vfs != e.vfs {
			out = slices.Insert(out, 0, e)
		}
	}
	return out
}
