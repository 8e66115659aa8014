package desired

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// Sources has all declarations of the wanted state of a node.
type Sources struct {
	// Host is host.yaml, which comes before everything else.
	Host Spec
	// Policies select the node, in any order.
	Policies []Policy
	// DevicePlugin are the pools of the SR-IOV device plugin's ConfigMap, which
	// come last.
	DevicePlugin []Pool
}

// Merged is the result of merging Sources.
type Merged struct {
	Spec Spec
	// Conflicts are contradictions between policies of one priority.
	Conflicts []Conflict
	// PFs names the source that decides for each PF, by the PF's address: a policy's name, or ""
	// for host.yaml. It leaves out PFs that no source names, and contested ones.
	PFs map[vf.PCIAddr]string
}

// Conflict is a PF or a pool of which policies of one priority want different
// things.
type Conflict struct {
	Object   string   // PF enp1s0f0, pool intel.com/a
	Policies []string // their names, at least two, sorted
	Text     string   // the contradictory wishes
}

// String describes the contradiction, for messages.
func (c Conflict) String() string {
	return fmt.Sprintf("%s: policies %s contradict each other (%s): it stays as it is; give one of them a higher priority",
		c.Object, strings.Join(c.Policies, ", "), c.Text)
}

// Merge makes one Spec of host.yaml, the cluster's policies and the device plugin's ConfigMap.
// For each PF, and for each name of a pool, the first source with an entry decides: host.yaml,
// then the policies by priority (higher first) and name, then the ConfigMap.
//
// Policies of one priority that want different things of one PF, or cut a pool of one name
// differently, contradict each other unless an earlier source decides. Then none of them is
// followed: the PF or pool stays as it is in before, and is left alone if before lacks it. Only the
// PFs that the node has can show whether policies contradict each other, so pfs and before are
// arguments; the outcome is a function of them.
func Merge(s Sources, before Spec, pfs []vf.PF) Merged {
	policies := slices.Clone(s.Policies)
	slices.SortFunc(policies, func(a, b Policy) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
	})
	m := Merged{PFs: map[vf.PCIAddr]string{}}
	m.Spec.PFs = slices.Clone(s.Host.PFs)
	for _, p := range policies {
		for _, r := range p.Spec.PFs {
			r.Policy, r.Priority = p.Name, p.Priority
			m.Spec.PFs = append(m.Spec.PFs, r)
		}
	}
	for _, pf := range pfs {
		m.mergePF(before, pf)
	}
	m.mergePools(s, policies, before)
	return m
}

// groupByPriority yields policies of one priority at a time, the highest first.
func groupByPriority(sorted []Policy) func(func([]Policy) bool) {
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

// mergePF finds the source that decides for one PF.
func (m *Merged) mergePF(before Spec, pf vf.PF) {
	var wishes []proposal
	for _, r := range m.Spec.decidingRules(pf) {
		wishes = append(wishes, proposal{r.Policy, r.plainWant(pf), r.Want.describe()})
	}
	if len(wishes) == 0 {
		return
	}
	if c, contested := findContradiction("PF "+pf.Label(), wishes); contested {
		keep, _ := before.ForPF(pf)
		m.Spec.Contested = append(m.Spec.Contested, Contested{PCI: pf.PCI, Keep: keep})
		m.Conflicts = append(m.Conflicts, c)
		return
	}
	m.PFs[pf.PCI] = wishes[0].policy
}

// proposal is a policy's proposal for an object, as comparable text.
type proposal struct {
	policy string
	value  any
	words  string
}

func findContradiction(object string, wishes []proposal) (Conflict, bool) {
	same := func(w proposal) bool { return reflect.DeepEqual(w.value, wishes[0].value) }
	if !slices.ContainsFunc(wishes, func(w proposal) bool { return !same(w) }) {
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

// mergePools adds the pools of all sources. It leaves out a pool whose name is taken. A name is
// compared as containers see it, so a-b and a_b are the same.
func (m *Merged) mergePools(s Sources, policies []Policy, before Spec) {
	taken := map[string]bool{}
	add := func(pools ...Pool) {
		for _, p := range pools {
			if !taken[p.variableName()] {
				taken[p.variableName()] = true
				m.Spec.Pools = append(m.Spec.Pools, p)
			}
		}
	}
	add(s.Host.Pools...)
	for group := range groupByPriority(policies) {
		wishes, order := map[string][]proposal{}, []Pool(nil)
		for _, policy := range group {
			for _, p := range policy.Spec.Pools {
				key := p.variableName()
				if wishes[key] == nil {
					order = append(order, p)
				}
				plain := p
				plain.From = ""
				wishes[key] = append(wishes[key], proposal{policy.Name, plain, p.describePool()})
			}
		}
		for _, p := range order {
			key := p.variableName()
			if c, contested := findContradiction("pool "+p.FullName(), wishes[key]); contested && !taken[key] {
				m.Conflicts = append(m.Conflicts, c)
				if i := slices.IndexFunc(before.Pools, func(o Pool) bool { return o.variableName() == key }); i >= 0 {
					add(before.Pools[i])
				}
				taken[key] = true
				continue
			}
			add(p)
		}
	}
	m.addDevicePlugin(s.DevicePlugin)
}

// addDevicePlugin adds the pools of the device plugin's file whose full names are not taken. Like
// that plugin, it serves pools whose names differ only as containers see them.
func (m *Merged) addDevicePlugin(pools []Pool) {
	for _, p := range pools {
		isThere := slices.ContainsFunc(m.Spec.Pools, func(q Pool) bool { return q.FullName() == p.FullName() })
		isContested := slices.ContainsFunc(m.Conflicts, func(c Conflict) bool { return c.Object == "pool "+p.FullName() })
		if !isThere && !isContested {
			m.Spec.Pools = append(m.Spec.Pools, p)
		}
	}
}

// describePool describes the device type, the offer with its taint, and the selectors of a pool.
func (p Pool) describePool() string {
	s := p.DeviceType
	if p.Offer != OfferResource {
		s += ", offer " + p.Offer.String()
	}
	if p.FaultTaint != TaintNoSchedule {
		s += ", faultTaint " + p.FaultTaint.String()
	}
	if len(p.Selectors) == 0 {
		return s + ", every VF"
	}
	return fmt.Sprintf("%s, %d selectors (%s)", s, len(p.Selectors), p.From)
}
