package verdict

import (
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netannotation"
)

// judgeNodes warns if the nodes of a pod's networks differ from one another, or from those that the
// pod's own nodeSelector names. The webhook adds the label of a network's annotation nodeSelector to
// the pod, unless the pod or an earlier network has another value.
func (v *Verdict) judgeNodes(p api.Pod, selector map[string]any, all files) {
	elements, err := all.rules.EveryPod.Parse(p.Annotations[netannotation.Networks], p.Namespace)
	if err != nil {
		return
	}
	first := map[string]string{} // the network of a label
	for _, e := range elements {
		n, err := all.rules.Find(e.Namespace, e.Name)
		if err != nil {
			continue
		}
		name := e.Namespace + "/" + e.Name
		key, value, err := netannotation.ParseNodeSelector(n.Annotations)
		if err != nil || key == "" {
			continue
		}
		have, isSet := selector[key].(string)
		switch {
		case !isSet:
			if selector == nil {
				selector = map[string]any{}
			}
			selector[key], first[key] = value, name
		case have == value:
		case first[key] != "":
			v.addWarning("network %s is on nodes with the label %s=%s, and network %s on nodes with %s=%s: no node has both", name, key, value, first[key], key, have)
		default:
			v.addWarning("network %s is on nodes with the label %s=%s, and the pod's nodeSelector says %s=%s, which stays", name, key, value, key, have)
		}
	}
}
