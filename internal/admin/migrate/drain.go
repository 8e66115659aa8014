package migrate

import (
	"fmt"
	"slices"
)

// drainNodes is the setting of Culvert's chart for the number of nodes on which pods are evicted at a time.
const drainNodes = "controller.drainNodes"

// defaultDrains is the value of drainNodes in the chart and in the manifest.
const defaultDrains = "1"

// drainField returns the field of an object of the operator that bounds drains, and whether it says
// that no pod may be evicted.
func drainField(o Object) (field, value string, isOff bool) {
	switch o.Kind {
	case KindPoolConfig:
		field = "maxUnavailable"
	case KindOperator:
		field = "disableDrain"
	}
	if o.Spec[field] == nil {
		return "", "", false
	}
	value = fmt.Sprint(o.Spec[field])
	return "spec." + field, value, slices.Contains([]string{"0", "0%", "true"}, value)
}

// isAboutDrains reports whether a note is about a field that bounds drains.
func (n Note) isAboutDrains() bool {
	return n.Field == "spec.maxUnavailable" || n.Field == "spec.disableDrain"
}

// reportDrains notes what an object says about drains.
func (c *converter) reportDrains(o Object) {
	field, value, isOff := drainField(o)
	switch {
	case isOff:
		c.lose(o, field, "%s: no pod may be evicted: set %s=0 of Culvert's chart, which is --drain-nodes=0 of culvert-controller, for all nodes; otherwise the controller evicts the pods with VFs of a PF whose number of VFs changes, on one node at a time", value, drainNodes)
	case o.Kind == KindPoolConfig && field != "" && value != defaultDrains:
		c.note(o, field, "%s: the controller evicts the pods with VFs of a PF whose number of VFs changes, on one node at a time unless %s of Culvert's chart says otherwise", value, drainNodes)
	}
}

// drainSteps returns the step that turns drains off, where objects of the operator say so and the
// controller that is installed drains.
func (c Cluster) drainSteps() []Step {
	if !slices.ContainsFunc(c.Objects, func(o Object) bool { _, _, isOff := drainField(o); return isOff }) {
		return nil
	}
	for _, w := range c.Workloads {
		if value, ok := flagOf(w.Args, "drain-nodes"); ok && w.Name == "culvert-controller" && value == "0" {
			return nil
		}
	}
	return []Step{{
		fmt.Sprintf(`sed -i 's|--drain-nodes=.*|--drain-nodes=0|' %s`, manifest),
		"the operator evicts no pod (maxUnavailable: 0 or disableDrain), and Culvert's controller would evict the pods with VFs of a PF whose number of VFs changes; with Helm, --set " + drainNodes + "=0",
	}}
}
