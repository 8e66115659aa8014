package desired

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/vf"
)

// Sources are all that say what is wanted of a node.
type Sources struct {
	// Host is host.yaml, which comes before everything else.
	Host Spec
	// Policies select the node, in any order.
	Policies []Policy
	// DevicePlugin are the pools of the SR-IOV device plugin's ConfigMap, which
	// come last.
	DevicePlugin []Pool
}

// Merged is what comes of them.
type Merged struct {
	Spec Spec
	// Conflicts are contradictions between policies of one priority.
	Conflicts []Conflict
	// PFs says whose wish is followed, by the PF's address: a policy's name, or
	// "" for host.yaml. A PF of which nobody wants anything, and a contested one,
	// is not there.
	PFs map[vf.PCIAddr]string
}

// Conflict is a PF or a pool of which policies of one priority want different
// things.
type Conflict struct {
	Object   string   // PF enp1s0f0, pool intel.com/a
	Policies []string // their names, at least two, sorted
	Text     string   // what they want
}

// String says what contradicts what.
func (c Conflict) String() string {
	return fmt.Sprintf("%s: policies %s contradict each other (%s): it stays as it is; give one of them a higher priority",
		c.Object, strings.Join(c.Policies, ", "), c.Text)
}

// Merge makes one Spec of what host.yaml, the cluster's policies and the device
// plugin's ConfigMap say. For each PF, and for each name of a pool, the first
// source that says something is followed: host.yaml, then the policies by
// priority (higher first) and name, then the ConfigMap.
//
// Policies of one priority that want different things of one PF, or cut a pool
// of one name differently, contradict each other where nothing before them has
// a say. Then nobody is followed: the PF or pool stays as before has it, and
// what before has not is left alone. Only the PFs that the node has can tell
// whether policies contradict each other, so pfs and before are arguments; the
// outcome is a function of them.
func Merge(s Sources, before Spec, pfs []vf.PF) Merged {
	policies := slices.Clone(s.Policies)
	slices.SortFunc(policies, func(a, b Policy) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
	})
	m := Merged{PFs: map[vf.PCIAddr]string{}}
	m.Spec.PFs = slices.Clone(s.Host.PFs)
	for _, p := range policies {
		m.Spec.PFs = append(m.Spec.PFs, p.Spec.PFs...)
	}
	for _, pf := range pfs {
		m.pf(s.Host, policies, before, pf)
	}
	m.pools(s, policies, before)
	return m
}

// groups yields policies of one priority at a time, the highest first.
func groups(sorted []Policy) func(func([]Policy) bool) {
	return func(yield func([]Policy) bool) {
		for i := 0; i < len(sorted); {
			j := i
			for j < len(sorted) && sorted[j].Priority == sorted[i].Priority {
				j++
			}
			if !yield(sorted[i:j]) {
				return
			}
			i = j
		}
	}
}

// pf finds out who is followed for one PF.
func (m *Merged) pf(host Spec, policies []Policy, before Spec, pf vf.PF) {
	if host.rule(pf) != nil {
		m.PFs[pf.PCI] = ""
		return
	}
	for group := range groups(policies) {
		var wishes []wish
		for _, p := range group {
			if r := p.Spec.rule(pf); r != nil {
				want := r.Want.resolved(pf)
				want.From = ""
				wishes = append(wishes, wish{p.Name, want, describePF(r.Want)})
			}
		}
		if len(wishes) == 0 {
			continue
		}
		if c, contested := contradiction("PF "+pf.Label(), wishes); contested {
			keep, _ := before.ForPF(pf)
			m.Spec.Contested = append(m.Spec.Contested, Contested{PCI: pf.PCI, Keep: keep})
			m.Conflicts = append(m.Conflicts, c)
			return
		}
		m.PFs[pf.PCI] = wishes[0].policy
		return
	}
}

// wish is what a policy wants of an object, comparable and in words.
type wish struct {
	policy string
	value  any
	words  string
}

func contradiction(object string, wishes []wish) (Conflict, bool) {
	same := func(w wish) bool { return reflect.DeepEqual(w.value, wishes[0].value) }
	if !slices.ContainsFunc(wishes, func(w wish) bool { return !same(w) }) {
		return Conflict{}, false
	}
	c := Conflict{Object: object}
	var words []string
	for _, w := range wishes {
		c.Policies = append(c.Policies, w.policy)
		words = append(words, w.policy+": "+w.words)
	}
	c.Text = strings.Join(words, "; ")
	return c, true
}

func describePF(want PFSpec) string {
	s := fmt.Sprintf("vfs %d", want.VFs)
	if want.VFs == AllVFs {
		s = "vfs max"
	}
	if want.MTU != 0 {
		s += fmt.Sprintf(", mtu %d", want.MTU)
	}
	if len(want.Addresses) > 0 {
		s += fmt.Sprintf(", addresses %v", want.Addresses)
	}
	return s + fmt.Sprintf(", autoprobe %t, needCarrier %t", want.Autoprobe, want.NeedCarrier)
}

// pools adds the pools of everybody, those of a name that is taken left out. A
// name is what a container sees, so a-b and a_b are one.
func (m *Merged) pools(s Sources, policies []Policy, before Spec) {
	taken := map[string]bool{}
	add := func(pools ...Pool) {
		for _, p := range pools {
			if !taken[p.variable()] {
				taken[p.variable()] = true
				m.Spec.Pools = append(m.Spec.Pools, p)
			}
		}
	}
	add(s.Host.Pools...)
	for group := range groups(policies) {
		wishes, order := map[string][]wish{}, []Pool(nil)
		for _, policy := range group {
			for _, p := range policy.Spec.Pools {
				key := p.variable()
				if wishes[key] == nil {
					order = append(order, p)
				}
				plain := p
				plain.From = ""
				wishes[key] = append(wishes[key], wish{policy.Name, plain, p.words()})
			}
		}
		for _, p := range order {
			key := p.variable()
			if c, contested := contradiction("pool "+p.FullName(), wishes[key]); contested && !taken[key] {
				m.Conflicts = append(m.Conflicts, c)
				if i := slices.IndexFunc(before.Pools, func(o Pool) bool { return o.variable() == key }); i >= 0 {
					add(before.Pools[i])
				}
				taken[key] = true
				continue
			}
			add(p)
		}
	}
	add(s.DevicePlugin...)
}

// words say how a pool is cut.
func (p Pool) words() string {
	s := p.DeviceType
	if len(p.Selectors) == 0 {
		return s + ", every VF"
	}
	return fmt.Sprintf("%s, %d selectors (%s)", s, len(p.Selectors), p.From)
}
