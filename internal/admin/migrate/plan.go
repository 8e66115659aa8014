package migrate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Plan has the steps by which a cluster changes to Culvert.
type Plan struct {
	Found []Part `json:"found"`
	// Becomes says what each object, network and pod becomes, and Problems what would not work.
	Becomes  []Note `json:"becomes"`
	Problems []Note `json:"problems"`
	Steps    []Step `json:"steps"`
}

// Step is a command of the plan and its reason.
type Step struct {
	Command string `json:"command"`
	Why     string `json:"why"`
}

// MakePlan returns the parts of other stacks in a cluster, what each becomes, the problems, and
// the order of the steps. It changes nothing.
func MakePlan(c Cluster, options Options) Plan {
	p := Plan{Found: c.Parts()}
	s, notes := c.settings(p.Found)
	options.ResourcePrefix = cmp.Or(options.ResourcePrefix, s.prefix)
	converted := Convert(c.wanted(), options)
	for _, n := range converted.Notes {
		// drainSteps has the step, and culvertd reads the ConfigMap of the device plugin itself.
		n.Lost = n.Lost && !n.isAboutDrains() && !strings.Contains(n.Text, commonLabel)
		p.add(n)
	}
	if c.hasOperatorObjects() {
		s.configMap, s.prefix, notes = "", "", nil // NodePolicies take their place
	}
	for _, n := range append(notes, c.judged()...) {
		p.add(n)
	}
	p.Steps = c.steps(p.Found, len(converted.Manifests) > 0, options, s)
	return p
}

func (p *Plan) add(n Note) {
	if n.Lost {
		p.Problems = append(p.Problems, n)
		return
	}
	p.Becomes = append(p.Becomes, n)
}

// operatorConfigMap is the ConfigMap that the operator makes of its policies.
const operatorConfigMap = "device-plugin-config"

// wanted returns the objects that declare the wanted state. ConfigMaps are included if they
// belong to the injector, or to a device plugin and the operator did not make them.
func (c Cluster) wanted() []Object {
	return slices.DeleteFunc(slices.Clone(c.Objects), func(o Object) bool {
		if o.Kind != KindConfigMap || c.hasOperatorObjects() && o.Name == operatorConfigMap {
			return o.Kind == KindConfigMap
		}
		return !hasResourceList(o) && !isInjectorConfig(o)
	})
}

// hasResourceList reports whether a ConfigMap is one of a device plugin.
func hasResourceList(o Object) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(o.Data)), isDevicePlugin)
}

// hasOperatorObjects reports whether objects of the operator are there.
func (c Cluster) hasOperatorObjects() bool {
	return slices.ContainsFunc(c.Objects, func(o Object) bool { return o.Kind != KindConfigMap })
}

// judged returns the notes about networks and pods, and one note for all pods without problems.
func (c Cluster) judged() []Note {
	out := slices.Clone(c.Judged)
	for _, n := range c.Networks {
		if slices.Contains(n.Owners, KindNetwork) {
			out = append(out, Note{Object: n.String(), Lost: true, Text: "its owner is a SriovNetwork, and it goes when that is deleted: take metadata.ownerReferences away first"})
		}
	}
	works := 0
	for _, p := range c.Pods {
		if !slices.ContainsFunc(c.Judged, func(n Note) bool { return n.Object == p.String() }) {
			works++
		}
	}
	if works > 0 {
		out = append(out, Note{Object: fmt.Sprintf("%d pods", works), Text: "ask for networks as Culvert reads them; running pods keep what they have"})
	}
	return out
}
