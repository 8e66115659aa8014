package migrate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/desired"
)

// lowestPriority is the number of the operator's lowest priority.
const lowestPriority = 99

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
		NetFilter   string   `json:"netFilter"`
	} `json:"nicSelector"`
	DeviceType        string `json:"deviceType"`
	NeedVhostNet      bool   `json:"needVhostNet"`
	ExcludeTopology   bool   `json:"excludeTopology"`
	ExternallyManaged bool   `json:"externallyManaged"`
	IsRDMA            bool   `json:"isRdma"`
	LinkType          string `json:"linkType"`
	VDPAType          string `json:"vdpaType"`
	ESwitchMode       string `json:"eSwitchMode"`
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
	n := p.NICSelector
	switch {
	case strings.EqualFold(p.LinkType, "ib"):
		c.lose(o, "spec.linkType", "not converted: %s", infiniband)
		return nil
	case p.ESwitchMode == "switchdev", p.VDPAType != "":
		c.lose(o, "", "not converted: its VFs would be others than it means")
		return nil
	case n.Vendor == "" && n.DeviceID == "" && len(n.RootDevices) == 0 && len(n.PFNames) == 0:
		c.lose(o, "spec.nicSelector", "not converted: without it no PF is meant")
		return nil
	}
	return []policy{p}
}

// decode fills a struct with the values of a spec.
func decode(values map[string]any, into any) error {
	raw, err := json.Marshal(values)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	return err
}

// nodePolicies makes a NodePolicy of the policies of each nodeSelector. The first is the one of
// the highest priority: a PF takes the first entry that matches it, and a VF the first pool.
func (c *converter) nodePolicies(all []policy) {
	groups := map[string][]policy{}
	for _, p := range all {
		key := fmt.Sprint(p.NodeSelector)
		groups[key] = append(groups[key], p)
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		group := groups[key]
		slices.SortStableFunc(group, func(a, b policy) int {
			return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.object.Name, b.object.Name))
		})
		c.nodePolicy(group)
	}
}

// nodePolicy makes one NodePolicy of policies that select the same nodes.
func (c *converter) nodePolicy(group []policy) {
	first := group[0]
	spec := v1alpha1.NodePolicySpec{NodeSelector: first.NodeSelector, Priority: int32(lowestPriority - first.Priority)}
	var names []string
	for _, p := range group {
		names = append(names, p.object.String())
		for _, rule := range p.rules() {
			addRule(&spec, rule)
		}
	}
	for _, p := range group {
		c.addPool(&spec, p, widestRules(spec))
		c.note(p.object, "", "becomes NodePolicy %s, pool %s/%s", first.object.Name, c.options.operatorPrefix(), p.ResourceName)
		if p.Priority != first.Priority || len(group) == 1 {
			c.note(p.object, "spec.priority", "%d: 0 is the highest there; a NodePolicy of a larger number goes first, and this one has %d", p.Priority, spec.Priority)
		}
	}
	c.addNodePolicy(first.object, spec, names)
}

// addNodePolicy keeps a NodePolicy, unless culvertd could not read it.
func (c *converter) addNodePolicy(o Object, spec v1alpha1.NodePolicySpec, from []string) {
	if _, err := desired.FromPolicy(o.Name, spec); err != nil {
		c.lose(o, "", "not converted: %v", err)
		return
	}
	c.Manifests = append(c.Manifests, Manifest{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodePolicy",
		Metadata: Metadata{Name: o.Name, Annotations: map[string]string{AnnotationFrom: strings.Join(from, ", ")}},
		Spec:     spec,
	})
}

// rules returns the entries of pfs: one for each PF that the policy names, or one for a kind of
// NIC.
func (p policy) rules() []v1alpha1.PFRule {
	if p.ExternallyManaged {
		return nil
	}
	base := v1alpha1.PFRule{Vendor: p.NICSelector.Vendor, Device: p.NICSelector.DeviceID, VFs: intstr.FromInt32(int32(p.NumVFs)), NeedCarrier: new(bool)}
	if p.MTU > 0 {
		mtu := int32(p.MTU)
		base.MTU = &mtu
	}
	rules := []v1alpha1.PFRule{base}
	rules = each(rules, p.NICSelector.PFNames, func(r *v1alpha1.PFRule, s string) { r.Name, _, _ = strings.Cut(s, "#") })
	return each(rules, p.NICSelector.RootDevices, func(r *v1alpha1.PFRule, s string) { r.PCIAddress, _, _ = strings.Cut(s, "#") })
}

// each makes of every rule one for each value.
func each(rules []v1alpha1.PFRule, values []string, set func(*v1alpha1.PFRule, string)) []v1alpha1.PFRule {
	if len(values) == 0 {
		return rules
	}
	var out []v1alpha1.PFRule
	for _, r := range rules {
		for _, v := range values {
			rule := r
			set(&rule, v)
			out = append(out, rule)
		}
	}
	return out
}

// samePF reports whether two entries are about the same PFs.
func samePF(a, b v1alpha1.PFRule) bool {
	return a.Name == b.Name && a.PCIAddress == b.PCIAddress && a.Vendor == b.Vendor && a.Device == b.Device
}

// addRule adds an entry, or raises the one of the same PFs: the operator gives a PF that several
// policies cut into parts the largest number of VFs and the largest MTU of them.
func addRule(spec *v1alpha1.NodePolicySpec, rule v1alpha1.PFRule) {
	for i := range spec.PFs {
		have := &spec.PFs[i]
		if !samePF(*have, rule) {
			continue
		}
		have.VFs = intstr.FromInt32(max(have.VFs.IntVal, rule.VFs.IntVal))
		if rule.MTU != nil && (have.MTU == nil || *have.MTU < *rule.MTU) {
			have.MTU = rule.MTU
		}
		return
	}
	spec.PFs = append(spec.PFs, rule)
}

// widestRules returns how many VFs each PF name or address has in the end.
func widestRules(spec v1alpha1.NodePolicySpec) map[string]int {
	out := map[string]int{}
	for _, r := range spec.PFs {
		for _, key := range []string{r.Name, r.PCIAddress} {
			out[key] = max(out[key], int(r.VFs.IntVal))
		}
	}
	return out
}

// addPool adds the pool of a policy, or its selector to the pool of that name.
func (c *converter) addPool(spec *v1alpha1.NodePolicySpec, p policy, vfs map[string]int) {
	s := v1alpha1.Selector{PFNames: p.parts(p.NICSelector.PFNames, vfs), RootDevices: p.parts(p.NICSelector.RootDevices, vfs)}
	if p.NICSelector.Vendor != "" {
		s.Vendors = []string{p.NICSelector.Vendor}
	}
	if id := p.NICSelector.DeviceID; id != "" {
		if known, ok := vfDevices[id]; ok {
			s.Devices = []string{known}
		} else if len(s.PFNames) == 0 && len(s.RootDevices) == 0 {
			c.lose(p.object, "spec.nicSelector.deviceID", "the device ID of the VFs of %s is not known: the pool has the VFs of every PF of the vendor; write selectors[].devices", id)
		}
	}
	s.IsRDMA, s.NeedVhostNet = trueOrNil(p.IsRDMA), trueOrNil(p.NeedVhostNet)
	for i := range spec.Pools {
		if spec.Pools[i].Name == p.ResourceName {
			spec.Pools[i].Selectors = append(spec.Pools[i].Selectors, s)
			return
		}
	}
	spec.Pools = append(spec.Pools, v1alpha1.Pool{
		Name: p.ResourceName, Prefix: c.options.operatorPrefix(), DeviceType: p.DeviceType,
		ExcludeTopology: trueOrNil(p.ExcludeTopology), Selectors: []v1alpha1.Selector{s},
	})
}

// trueOrNil returns the value of a NodePolicy's switch that is off by default.
func trueOrNil(on bool) *bool {
	if !on {
		return nil
	}
	return &on
}

// parts returns the PFs of a selector. A policy without a range of VFs means its first numVfs,
// which are fewer than the PF has where another policy has more.
func (p policy) parts(pfs []string, vfs map[string]int) []string {
	var out []string
	for _, s := range pfs {
		name, _, ranged := strings.Cut(s, "#")
		if !ranged && !p.ExternallyManaged && p.NumVFs > 0 && p.NumVFs < vfs[name] {
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
