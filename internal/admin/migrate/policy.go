package migrate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/node/desired"
)

// lowestPriority is the number of the operator's lowest priority.
const lowestPriority = 99

// defaultPolicy is the name of a policy that the operator made once, and ignores since.
const defaultPolicy = "default"

// policySpec has the fields of a SriovNetworkNodePolicy that have an equivalent.
type policySpec struct {
	ResourceName string            `json:"resourceName"`
	NodeSelector map[string]string `json:"nodeSelector"`
	Priority     int               `json:"priority"`
	MTU          int               `json:"mtu"`
	NumVFs       int               `json:"numVfs"`
	NICSelector  struct {
		Vendor      string   `json:"vendor"`
		DeviceID    string   `json:"deviceID"`
		RootDevices []string `json:"rootDevices"`
		PFNames     []string `json:"pfNames"`
	} `json:"nicSelector"`
	DeviceType        string `json:"deviceType"`
	NeedVhostNet      bool   `json:"needVhostNet"`
	ExcludeTopology   bool   `json:"excludeTopology"`
	ExternallyManaged bool   `json:"externallyManaged"`
	IsRDMA            bool   `json:"isRdma"`
}

// policy is a SriovNetworkNodePolicy that is converted.
type policy struct {
	object Object
	policySpec
}

// policy reads a SriovNetworkNodePolicy: none when it cannot be converted.
func (c *converter) policy(o Object) []policy {
	p := policy{object: o}
	if err := decode(o.Spec, &p.policySpec); err != nil {
		c.lose(o, "spec", "not converted: %v", err)
		return nil
	}
	n := &p.NICSelector
	n.Vendor, n.DeviceID = normalizeID(n.Vendor), normalizeID(n.DeviceID)
	switch {
	case o.Name == defaultPolicy:
		c.note(o, "", "not converted: the operator ignores the policy of this name too")
		return nil
	case p.NumVFs <= 0 && !p.ExternallyManaged:
		c.lose(o, "spec.numVfs", "not converted: with %d VFs the operator gives out the PF itself, and Culvert gives out VFs", p.NumVFs)
		return nil
	case n.Vendor == "" && n.DeviceID == "" && len(n.RootDevices) == 0 && len(n.PFNames) == 0:
		c.lose(o, "spec.nicSelector", "not converted: without it no PF is meant")
		return nil
	case slices.ContainsFunc(n.PFNames, isPattern):
		name := n.PFNames[slices.IndexFunc(n.PFNames, isPattern)]
		c.lose(o, "spec.nicSelector.pfNames", "not converted: the operator takes %s for a whole name, which no PF has: write the names of the PFs", excerpt.Quote(name))
		return nil
	}
	if err := p.findMistake(c.options); err != nil {
		c.lose(o, "", "not converted: %v", err)
		return nil
	}
	return []policy{p}
}

// normalizeID returns a vendor or device ID as Culvert writes it, so that IDs can be compared.
func normalizeID(id string) string { return strings.TrimPrefix(strings.ToLower(id), "0x") }

// isPattern reports whether a name has signs of a pattern or a regular expression. A NodePolicy would
// take it for a pattern, and so have more PFs than the policy.
func isPattern(name string) bool { return strings.ContainsAny(name, `*?+^$|\[](){}`) }

// findMistake returns why the NodePolicy of a single policy would be refused. The policies that
// share a NodePolicy with it are converted all the same.
func (p policy) findMistake(options Options) error {
	scratch := converter{options: options}
	var spec v1alpha1.NodePolicySpec
	entries, _ := mergeEntries([]policy{p})
	for _, e := range entries {
		spec.PFs = append(spec.PFs, e.rule())
	}
	scratch.addPool(&spec, p, entries)
	_, err := scratch.addNodePolicy(p.object.Name, spec, nil)
	return err
}

// decode fills a struct with the values of a spec.
func decode(values map[string]any, into any) error {
	raw, err := json.Marshal(values)
	if err != nil {
		return err
	}
	return excerpt.DecodeJSON(raw, func(text []byte) error { return json.Unmarshal(text, into) })
}

// nodePolicies makes a NodePolicy of the policies of each nodeSelector. Policies of several
// nodeSelectors that share a PF or a pool are merged by the operator on the nodes that all of them
// select. So these nodes get a NodePolicy that has all of them, of a higher priority.
func (c *converter) nodePolicies(all []policy) {
	slices.SortStableFunc(all, func(a, b policy) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.object.Name, b.object.Name))
	})
	var selectors []map[string]string
	for _, p := range all {
		selectors = append(selectors, p.NodeSelector)
	}
	selectors, complete := addCommon(selectors, intersectLabels, maps.Equal)
	if !complete {
		c.lose(all[0].object, "spec.nodeSelector", "more than %d sets of nodes may have several policies: not all of them are merged", maxCommon)
	}
	slices.SortFunc(selectors, func(a, b map[string]string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	var made []v1alpha1.NodePolicySpec
	for _, s := range selectors {
		own, group := groupOf(all, s)
		if len(group) == 0 {
			continue
		}
		spec := v1alpha1.NodePolicySpec{NodeSelector: s, Priority: int32(lowestPriority - group[0].Priority)}
		for _, m := range made {
			if len(group) > len(own) && selectsMore(m.NodeSelector, s) {
				spec.Priority = max(spec.Priority, m.Priority+1)
			}
		}
		made = append(made, spec)
		c.nodePolicy(spec, own, group)
	}
}

// selectsMore reports whether labels select every node that other ones select.
func selectsMore(labels, other map[string]string) bool {
	both, ok := intersectLabels(labels, other)
	return ok && maps.Equal(both, other)
}

// groupOf returns the policies of a nodeSelector, and the group for its NodePolicy. The group also
// has the policies of wider nodeSelectors, if they share a PF or a pool and all of them together
// select no more nodes than this nodeSelector.
func groupOf(all []policy, labels map[string]string) (own, group []policy) {
	var here []policy
	for _, p := range all {
		if selectsMore(p.NodeSelector, labels) {
			here = append(here, p)
		}
		if maps.Equal(p.NodeSelector, labels) {
			own = append(own, p)
		}
	}
	shared := findShared(here)
	var together map[string]string
	for i, p := range here {
		if shared[i] {
			together, _ = intersectLabels(together, p.NodeSelector)
		}
		if shared[i] || maps.Equal(p.NodeSelector, labels) {
			group = append(group, p)
		}
	}
	if !maps.Equal(together, labels) {
		return own, own
	}
	return own, group
}

// findShared reports which policies of a node share a PF or a pool with one of another
// nodeSelector, or with a policy that does.
func findShared(here []policy) []bool {
	shared := make([]bool, len(here))
	for changed := true; changed; {
		changed = false
		for i, p := range here {
			for j, o := range here {
				if !shared[i] && (shared[j] || !maps.Equal(o.NodeSelector, p.NodeSelector)) && p.sharesWith(o) {
					shared[i], changed = true, true
				}
			}
		}
	}
	return shared
}

// nodePolicy makes one NodePolicy of a group of policies, the highest priority first: a VF takes
// the first pool that matches it. own are those of its nodeSelector.
func (c *converter) nodePolicy(spec v1alpha1.NodePolicySpec, own, group []policy) {
	entries, complete := mergeEntries(group)
	if !complete {
		c.lose(group[0].object, "spec.nicSelector", "more than %d sets of PFs may have several policies: not all of them are merged", maxCommon)
	}
	for _, e := range dropImplied(entries) {
		spec.PFs = append(spec.PFs, e.rule())
	}
	var names []string
	for _, p := range group {
		names = append(names, p.object.String())
		c.addPool(&spec, p, entries)
	}
	name, err := c.addNodePolicy(nameOf(own, group), spec, names)
	for _, p := range group {
		switch {
		case err != nil:
			c.lose(p.object, "", "not converted: %v", err)
			continue
		case !maps.Equal(p.NodeSelector, spec.NodeSelector):
			c.note(p.object, "spec.nodeSelector", "it is a part of NodePolicy %s too, for the nodes that several policies select", name)
			continue
		}
		c.note(p.object, "", "becomes NodePolicy %s, pool %s/%s", name, c.options.operatorPrefix(), p.ResourceName)
		if p.Priority != group[0].Priority || len(group) != len(own) || len(group) == 1 {
			c.note(p.object, "spec.priority", "%d: 0 is the highest there; a NodePolicy of a larger number goes first, and this one has %d", p.Priority, spec.Priority)
		}
		if e, ok := p.findOther(entries); ok {
			c.note(p.object, "spec.numVfs", "%d: a PF that other policies select too gets %d, as the operator merges them", p.NumVFs, e.vfs)
		}
	}
}

// nameOf returns the name of the NodePolicy of a group: that of its first own policy, or the names
// of the first policies of each nodeSelector.
func nameOf(own, group []policy) string {
	if len(own) > 0 {
		return own[0].object.Name
	}
	var names []string
	for i, p := range group {
		if !slices.ContainsFunc(group[:i], func(o policy) bool { return maps.Equal(o.NodeSelector, p.NodeSelector) }) {
			names = append(names, p.object.Name)
		}
	}
	return strings.Join(names, "-and-")
}

// findOther finds PFs of a policy that get another number of VFs than the policy has.
func (p policy) findOther(entries []entry) (entry, bool) {
	i := slices.IndexFunc(entries, func(e entry) bool { return !p.ExternallyManaged && p.selects(e.pfSelector) && e.vfs != p.NumVFs })
	if i < 0 {
		return entry{}, false
	}
	return entries[i], true
}

// addNodePolicy keeps a NodePolicy, and returns its name. The error says why the API server or
// culvertd would refuse it.
func (c *converter) addNodePolicy(name string, spec v1alpha1.NodePolicySpec, from []string) (string, error) {
	name = c.freeName(name)
	if bad := validation.IsDNS1123Subdomain(name); len(bad) > 0 {
		return "", fmt.Errorf("a NodePolicy cannot have the name %q: give the object another one: %s", name, bad[0])
	}
	if _, err := desired.FromPolicy(name, spec); err != nil {
		return "", err
	}
	c.Manifests = append(c.Manifests, Manifest{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodePolicy",
		Metadata: Metadata{Name: name, Annotations: map[string]string{AnnotationFrom: strings.Join(from, ", ")}},
		Spec:     spec,
	})
	return name, nil
}

// freeName returns a name that no NodePolicy has yet: the given one, or the given one with a
// number. It shortens a name that is too long for an object.
func (c *converter) freeName(name string) string {
	const room = len("-1000")
	if len(name) > validation.DNS1123SubdomainMaxLength-room {
		name = strings.TrimRight(name[:validation.DNS1123SubdomainMaxLength-room], "-.")
	}
	free := name
	for n := 2; slices.ContainsFunc(c.Manifests, func(m Manifest) bool { return m.Metadata.Name == free }); n++ {
		free = name + "-" + strconv.Itoa(n)
	}
	return free
}

// addPool adds the pool of a policy, or its selector to the pool of that name.
func (c *converter) addPool(spec *v1alpha1.NodePolicySpec, p policy, entries []entry) {
	s := v1alpha1.Selector{PFNames: p.NICSelector.PFNames, RootDevices: p.NICSelector.RootDevices}
	if p.hasFewer(entries) {
		s.RootDevices = p.limitVFs(s.RootDevices)
		if s.PFNames = p.limitVFs(s.PFNames); len(s.PFNames)+len(s.RootDevices) == 0 {
			s.PFNames = p.limitVFs([]string{"*"})
		}
	}
	if p.NICSelector.Vendor != "" {
		s.Vendors = []string{p.NICSelector.Vendor}
	}
	if id := p.NICSelector.DeviceID; id != "" {
		if known, ok := vfDevices[id]; ok {
			s.Devices = []string{known}
		} else if len(p.NICSelector.PFNames) == 0 && len(p.NICSelector.RootDevices) == 0 {
			c.lose(p.object, "spec.nicSelector.deviceID", "the device ID of the VFs of %s is not known: the pool has the VFs of every PF of the vendor; write selectors[].devices", id)
		}
	}
	s.IsRDMA, s.NeedVhostNet = trueOrNil(p.IsRDMA), trueOrNil(p.NeedVhostNet)
	pool := v1alpha1.Pool{
		Name: p.ResourceName, Prefix: c.options.operatorPrefix(), DeviceType: p.DeviceType,
		ExcludeTopology: trueOrNil(p.ExcludeTopology), Selectors: []v1alpha1.Selector{s},
	}
	if p.MTU != 0 {
		mtu := int32(p.MTU)
		pool.MTU = &mtu
	}
	for i := range spec.Pools {
		if spec.Pools[i].Name == p.ResourceName {
			c.reportOthers(p, spec.Pools[i], pool)
			spec.Pools[i].Selectors = append(spec.Pools[i].Selectors, s)
			return
		}
	}
	spec.Pools = append(spec.Pools, pool)
}

// reportOthers names the settings of a policy in which the pool of its resource differs, since an
// earlier policy made the pool.
func (c *converter) reportOthers(p policy, made, wanted v1alpha1.Pool) {
	text := func(number *int32) string {
		if number == nil {
			return "none"
		}
		return fmt.Sprint(*number)
	}
	for _, f := range []struct{ field, made, wanted string }{
		{"mtu", text(made.MTU), text(wanted.MTU)},
		{"deviceType", cmp.Or(made.DeviceType, desired.NetDevice), cmp.Or(wanted.DeviceType, desired.NetDevice)},
		{"excludeTopology", fmt.Sprint(made.ExcludeTopology != nil), fmt.Sprint(wanted.ExcludeTopology != nil)},
	} {
		if f.made != f.wanted {
			c.lose(p.object, "spec."+f.field, "%s: another policy of resource %s has %s, and a pool has one: its VFs get that; give the policies different resources", f.wanted, p.ResourceName, f.made)
		}
	}
}

// trueOrNil returns the value of a NodePolicy's switch that is off by default.
func trueOrNil(on bool) *bool {
	if !on {
		return nil
	}
	return &on
}

// hasFewer reports whether a PF of a policy has more VFs than the policy has.
func (p policy) hasFewer(entries []entry) bool {
	return p.NumVFs > 0 && slices.ContainsFunc(entries, func(e entry) bool {
		return !p.ExternallyManaged && p.selects(e.pfSelector) && e.vfs > p.NumVFs
	})
}

// limitVFs returns the PFs of a selector with a range of VFs: a policy without one means its first
// numVfs.
func (p policy) limitVFs(pfs []string) (out []string) {
	for _, s := range pfs {
		if !strings.Contains(s, "#") {
			s += "#0-" + strconv.Itoa(p.NumVFs-1)
		}
		out = append(out, s)
	}
	return out
}

// vfDevices has the device ID of the VFs of a PF's device ID, from pci.ids and the drivers'
// tables of devices: Intel (ixgbe, i40e, ice, igb) and Mellanox (mlx5_core).
var vfDevices = map[string]string{
	"10c9": "10ca", "1521": "1520", "10fb": "10ed", "1528": "1515", "1563": "1565",
	"1572": "154c", "1583": "154c", "1584": "154c", "1586": "154c", "1589": "154c", "158a": "154c", "158b": "154c", "0d58": "154c", "37d2": "37cd",
	"1591": "1889", "1592": "1889", "1593": "1889", "159b": "1889", "188a": "1889", "188b": "1889", "188c": "1889",
	"1013": "1014", "1015": "1016", "1017": "1018", "1019": "101a", "101b": "101c", "101d": "101e", "101f": "101e", "1021": "101e", "a2d6": "101e", "a2dc": "101e",
}
