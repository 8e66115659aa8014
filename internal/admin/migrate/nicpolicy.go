package migrate

import (
	"cmp"
	"strings"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

// Kinds of NVIDIA's network operator, which runs the device plugin with a configuration of its own.
const (
	kindNICCluster = "NicClusterPolicy"
	kindNICNode    = "NicNodePolicy"
)

// nicPolicyPrefix is the prefix of resources that NVIDIA's network operator gives the device plugin.
const nicPolicyPrefix = "nvidia.com"

// nicPolicy converts the configuration of the device plugin in an object of NVIDIA's network operator.
func (c *converter) nicPolicy(o Object) {
	const field = "spec.sriovDevicePlugin.config"
	plugin, _ := o.Spec["sriovDevicePlugin"].(map[string]any)
	text, _ := plugin["config"].(string)
	switch {
	case text == "":
		c.note(o, "", "not converted: it has no configuration of the device plugin")
		return
	case o.Spec["nodeAffinity"] != nil || plugin["nodeAffinity"] != nil:
		c.lose(o, field, "not converted: a NodePolicy selects nodes by labels, and not by nodeAffinity: put the configuration into a ConfigMap, convert that, and add a nodeSelector")
		return
	}
	spec := v1alpha1.NodePolicySpec{}
	if err := decode(o.Spec, &struct {
		NodeSelector *map[string]string `json:"nodeSelector"`
	}{&spec.NodeSelector}); err != nil {
		c.lose(o, "spec.nodeSelector", "not converted: %v", err)
		return
	}
	of := converter{options: Options{ResourcePrefix: cmp.Or(c.options.ResourcePrefix, nicPolicyPrefix)}}
	as := o
	as.Data = map[string]string{commonKey: text}
	pools, ok := of.devicePluginPools(as, commonKey)
	for _, n := range of.Notes {
		n.Field = field + strings.TrimPrefix(n.Field, "data."+commonKey)
		c.Notes = append(c.Notes, n)
	}
	if !ok || len(pools) == 0 {
		return
	}
	spec.Pools = pools
	name, err := c.addNodePolicy(o.Name, spec, []string{o.String()})
	if err != nil {
		c.lose(o, field, "not converted: %v", err)
		return
	}
	c.note(o, field, "becomes NodePolicy %s; the other parts of the object are about the network operator's own programs", name)
}
