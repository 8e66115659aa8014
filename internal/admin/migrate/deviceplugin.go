package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/node/desired"
)

// resource is a pool of the device plugin's configuration.
type resource struct {
	ResourceName    string                       `json:"resourceName"`
	ResourcePrefix  string                       `json:"resourcePrefix"`
	DeviceType      string                       `json:"deviceType"`
	ExcludeTopology bool                         `json:"excludeTopology"`
	AdditionalInfo  map[string]map[string]string `json:"additionalInfo"`
	Selectors       json.RawMessage              `json:"selectors"`
}

// commonKey is the key of a configuration for all nodes; another key is the name of a node.
const commonKey = "config.json"

// hostname is the label of a node that has its name.
const hostname = "kubernetes.io/hostname"

// configMap converts a ConfigMap of the device plugin: a NodePolicy for each of its keys.
func (c *converter) configMap(o Object) {
	if isInjectorConfig(o) {
		c.loseInjections(o)
		return
	}
	converted := false
	for _, key := range slices.Sorted(maps.Keys(o.Data)) {
		var config struct {
			ResourceList []map[string]any `json:"resourceList"`
		}
		if json.Unmarshal([]byte(o.Data[key]), &config) != nil || config.ResourceList == nil {
			continue
		}
		converted = true
		var spec v1alpha1.NodePolicySpec
		name := o.Name
		if key != commonKey {
			if bad := validation.IsDNS1123Subdomain(key); len(bad) > 0 {
				c.lose(o, "data."+key, "not converted: no node can have that name: call the key %s, or after the node that it is for", commonKey)
				continue
			}
			spec.NodeSelector, spec.Priority = map[string]string{hostname: key}, 1 // before those for all nodes
			name += "-" + key
		}
		for i, in := range config.ResourceList {
			where := fmt.Sprintf("data.%s.resourceList[%d]", key, i)
			pool, err := c.pool(o, where, in)
			if err != nil {
				c.lose(o, where, "not converted: %v", err)
				continue
			}
			spec.Pools = append(spec.Pools, pool)
		}
		if len(spec.Pools) == 0 {
			continue
		}
		name, err := c.addNodePolicy(name, spec, []string{o.String()})
		if err != nil {
			c.lose(o, "data."+key, "not converted: %v", err)
			continue
		}
		c.note(o, "data."+key, "becomes NodePolicy %s; say how many VFs the PFs have in its pfs, where culvertd is to make them", name)
	}
	if !converted {
		c.note(o, "", "not converted: none of its keys has a resourceList, so it is not the device plugin's")
	}
}

// pool converts one resource. The error says why it has no equivalent.
func (c *converter) pool(o Object, where string, in map[string]any) (v1alpha1.Pool, error) {
	var r resource
	if err := decode(in, &r); err != nil {
		return v1alpha1.Pool{}, err
	}
	out := v1alpha1.Pool{Name: r.ResourceName, Prefix: r.ResourcePrefix, AdditionalInfo: r.AdditionalInfo}
	if out.Prefix == "" {
		out.Prefix = c.options.ResourcePrefix
	}
	if out.Prefix == "" {
		out.Prefix = desired.DevicePluginPrefix
	}
	if r.ExcludeTopology {
		out.ExcludeTopology = &r.ExcludeTopology
	}
	if r.DeviceType != "" && !strings.EqualFold(r.DeviceType, desired.NetDevice) {
		return out, fmt.Errorf("deviceType %s has no equivalent: Culvert gives out VFs", r.DeviceType)
	}
	if err := reportUnserved(in); err != nil {
		return out, err
	}
	selectors, err := selectorsOf(r.Selectors)
	if err != nil {
		return out, err
	}
	if len(selectors) == 0 {
		return out, errors.New("selectors: without them the pool has no device")
	}
	out.Selectors = selectors
	_, err = desired.FromPolicy(o.Name, v1alpha1.NodePolicySpec{Pools: []v1alpha1.Pool{out}})
	if err != nil {
		return out, fmt.Errorf("%s: %w", where, err)
	}
	return out, nil
}

// reportUnserved returns an error that names the first selector without an equivalent.
func reportUnserved(in map[string]any) error {
	known := fieldsOf(KindConfigMap)
	var selectors []map[string]any
	switch s := folded(in, "selectors").(type) {
	case map[string]any:
		selectors = append(selectors, s)
	case []any:
		for _, item := range s {
			if m, ok := item.(map[string]any); ok {
				selectors = append(selectors, m)
			}
		}
	}
	for _, m := range selectors {
		for _, f := range known {
			key, ok := strings.CutPrefix(f.Path, "selectors.")
			if value := folded(m, key); ok && f.To == "" && !f.isHarmless(value) {
				return fmt.Errorf("selectors.%s has no equivalent: %s", key, f.Why)
			}
		}
	}
	return nil
}

// folded returns the value of a key in any case, as the device plugin reads it.
func folded(values map[string]any, key string) any {
	for k, v := range values {
		if strings.EqualFold(k, key) {
			return v
		}
	}
	return nil
}

// selectorsOf reads a map of selectors, or a list of them.
func selectorsOf(raw json.RawMessage) ([]v1alpha1.Selector, error) {
	var out []v1alpha1.Selector
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] == '{' {
		raw = json.RawMessage("[" + string(raw) + "]")
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("selectors: %w", err)
	}
	return out, nil
}
