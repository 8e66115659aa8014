package migrate

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/node/desired"
)

// commonKey is the key of a configuration for all nodes; another key is the name of a node.
const commonKey = "config.json"

// hostname is the label of a node that has its name.
const hostname = "kubernetes.io/hostname"

// commonLabel selects the nodes that follow the configuration for all nodes, where other nodes have
// one of their own: a nodeSelector cannot leave nodes out.
const commonLabel, commonValue = "culvert.dev/device-plugin-config", "common"

// configMap converts a ConfigMap of the device plugin: a NodePolicy for each of its keys.
func (c *converter) configMap(o Object) {
	if isInjectorConfig(o) {
		c.loseInjections(o)
		return
	}
	var keys, nodes []string
	for _, key := range slices.Sorted(maps.Keys(o.Data)) {
		switch {
		case !isDevicePlugin(o.Data[key]):
			continue
		case key == commonKey:
		case len(validation.IsDNS1123Subdomain(key)) > 0:
			c.lose(o, "data."+key, "not converted: no node can have that name: call the key %s, or after the node that it is for", commonKey)
			continue
		default:
			nodes = append(nodes, key)
		}
		keys = append(keys, key)
	}
	for _, key := range keys {
		c.devicePlugin(o, key, nodes)
	}
	if !hasResourceList(o) {
		c.note(o, "", "not converted: none of its keys has a resourceList, so it is not the device plugin's")
	}
}

// isDevicePlugin reports whether a text is a configuration of the device plugin, which reads its
// keys in any case.
func isDevicePlugin(text string) bool {
	return strings.Contains(strings.ToLower(text), "resourcelist")
}

// devicePlugin makes a NodePolicy of a key of a ConfigMap. nodes have keys of their own.
func (c *converter) devicePlugin(o Object, key string, nodes []string) {
	field := "data." + key
	pools, ok := c.devicePluginPools(o, key)
	if !ok {
		return
	}
	if len(pools) == 0 {
		c.note(o, field, "not converted: it has no pool that is served")
		return
	}
	spec, name := v1alpha1.NodePolicySpec{Pools: pools}, o.Name
	switch {
	case key != commonKey:
		spec.NodeSelector, spec.Priority = map[string]string{hostname: key}, 1 // before those for all nodes
		name += "-" + key
	case len(nodes) > 0:
		spec.NodeSelector = map[string]string{commonLabel: commonValue}
		c.lose(o, field, "it is for all nodes but %s, which have keys of their own, and a NodePolicy cannot leave nodes out: label all others: kubectl label node NAME %s=%s",
			strings.Join(nodes, ", "), commonLabel, commonValue)
	}
	name, err := c.addNodePolicy(name, spec, []string{o.String()})
	if err != nil {
		c.lose(o, field, "not converted: %v", err)
		return
	}
	c.note(o, field, "becomes NodePolicy %s, whose pools take VFs with the driver that is bound to them, as the device plugin does; say how many VFs the PFs have in its pfs, where culvertd is to make them", name)
}

// devicePluginPools reads a configuration as culvertd does, and returns the pools of a NodePolicy that
// have the same VFs. ok is false for a text that is refused as a whole.
func (c *converter) devicePluginPools(o Object, key string) (pools []v1alpha1.Pool, ok bool) {
	field := "data." + key
	read, err := desired.ParseDevicePlugin(key, []byte(o.Data[key]), c.options.ResourcePrefix)
	if err != nil {
		c.lose(o, field, "not converted: %v", err)
		return nil, false
	}
	for _, e := range read.Refused {
		c.lose(o, strings.TrimSuffix(field+"."+e.Path, "."), "not converted: %s", e.Text)
	}
	for _, w := range read.Warnings {
		// A warning about an entry as a whole means that it makes no pool. The device plugin ignores
		// unknown keys too.
		c.note(o, strings.TrimSuffix(field+"."+w.Path, "."), "%s", w.Text)
		c.Notes[len(c.Notes)-1].Lost = !strings.Contains(w.Path, "].")
	}
	for _, p := range read.Pools {
		switch {
		case p.Unserved != "":
			c.lose(o, field, "pool %s is not converted: %s", p.FullName(), p.Unserved)
		case len(p.Selectors) == 0:
			c.lose(o, field, "pool %s is not converted: selectors: without them the pool has no device", p.FullName())
		default:
			made := poolOf(p)
			if err := requireSame(p, made); err != nil {
				// Without it, the later pools would get its VFs.
				c.lose(o, field, "not converted: pool %s: %v", p.FullName(), err)
				return nil, false
			}
			pools = append(pools, made)
		}
	}
	return pools, true
}

// requireSame returns an error if culvertd would read a NodePolicy's pool as another one than the
// pool of the device plugin that it was made of.
func requireSame(p desired.Pool, made v1alpha1.Pool) error {
	read, err := desired.FromPolicy(p.Name, v1alpha1.NodePolicySpec{Pools: []v1alpha1.Pool{made}})
	if err != nil {
		return err
	}
	same := read.Pools[0]
	same.From = p.From
	if !reflect.DeepEqual(same, p) {
		return errors.New("a NodePolicy's pool would have other VFs: keep the ConfigMap")
	}
	return nil
}

// poolOf returns the pool of a NodePolicy that takes the VFs which a pool of the device plugin
// takes.
func poolOf(p desired.Pool) v1alpha1.Pool {
	asBound := true
	out := v1alpha1.Pool{Name: p.Name, Prefix: p.Prefix, AsBound: &asBound, ExcludeTopology: trueOrNil(p.ExcludeTopology), AdditionalInfo: p.AdditionalInfo}
	for _, s := range p.Selectors {
		out.Selectors = append(out.Selectors, v1alpha1.Selector{
			Vendors: s.Vendors, Devices: s.Devices, Drivers: s.Drivers, LinkTypes: s.LinkTypes,
			PCIAddresses: texts(s.PCIAddresses), ACPIIndexes: texts(s.ACPIIndexes),
			PFNames: parts(s.PFNames), RootDevices: parts(s.RootDevices),
			IsRDMA: trueOrNil(s.IsRDMA), NeedVhostNet: trueOrNil(s.NeedVhostNet),
		})
	}
	return out
}

func texts[T any](values []T) (out []string) {
	for _, v := range values {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

// parts returns values of pfNames or rootDevices as people write them: a PF, then the indexes of
// some of its VFs.
func parts[T any](values []desired.Part[T]) (out []string) {
	for _, p := range values {
		var indexes []string
		for _, r := range p.Indexes {
			text := fmt.Sprint(r.First)
			if r.Last != r.First {
				text += fmt.Sprint("-", r.Last)
			}
			indexes = append(indexes, text)
		}
		text := fmt.Sprint(p.PF)
		if len(indexes) > 0 {
			text += "#" + strings.Join(indexes, ",")
		}
		out = append(out, text)
	}
	return out
}
