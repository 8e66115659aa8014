package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/intake/cni"
	"github.com/culvert-net/culvert/netannotation"
	"github.com/culvert-net/culvert/netconf"
)

// Plan is how a cluster becomes one of Culvert's.
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

// MakePlan says what is there, what becomes of it, what would not work, and in which order what
// goes. It changes nothing.
func MakePlan(c Cluster, options Options) Plan {
	p := Plan{Found: c.Parts()}
	converted := Convert(c.wanted(), options)
	for _, n := range converted.Notes {
		p.add(n)
	}
	for _, n := range c.judgeNetworks() {
		p.add(n)
	}
	for _, n := range c.judgePods() {
		p.add(n)
	}
	p.Steps = c.steps(p.Found, len(converted.Manifests) > 0)
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

// wanted are the objects that say what is wanted: of ConfigMaps those of a device plugin that the
// operator did not make.
func (c Cluster) wanted() []Object {
	return slices.DeleteFunc(slices.Clone(c.Objects), func(o Object) bool {
		if o.Kind != KindConfigMap || c.hasOperatorObjects() && o.Name == operatorConfigMap {
			return o.Kind == KindConfigMap
		}
		return !slices.ContainsFunc(slices.Collect(maps.Values(o.Data)), func(text string) bool { return strings.Contains(text, "resourceList") })
	})
}

// hasOperatorObjects reports whether objects of the operator are there.
func (c Cluster) hasOperatorObjects() bool {
	return slices.ContainsFunc(c.Objects, func(o Object) bool { return o.Kind != KindConfigMap })
}

// judgeNetworks says what becomes of each NetworkAttachmentDefinition, as webhook and culvertd read it.
func (c Cluster) judgeNetworks() []Note {
	var out []Note
	for _, n := range c.Networks {
		note := Note{Object: "NetworkAttachmentDefinition " + n.Namespace + "/" + n.Name}
		note.Text, note.Lost = judgeNetwork(n)
		out = append(out, note)
		if slices.Contains(n.Owners, KindNetwork) {
			out = append(out, Note{Object: note.Object, Lost: true, Text: "its owner is a SriovNetwork, and it goes when that is deleted: take metadata.ownerReferences away first"})
		}
	}
	return out
}

func judgeNetwork(n Network) (text string, lost bool) {
	l, err := cni.ParseDefinition(n.NetworkDefinition)
	if err != nil && l.HasOwn() {
		return "would be refused: " + err.Error(), true
	}
	if !l.HasOwn() {
		var types []string
		for _, p := range l.Plugins {
			types = append(types, p.Type)
		}
		if len(types) == 0 {
			return "stays: a file on the nodes has its configuration", false
		}
		return "stays: its plugins " + strings.Join(types, ", ") + " are run as they are", false
	}
	own, err := cni.OwnConfigs(l)
	if err != nil {
		return "would be refused: " + err.Error(), true
	}
	text = "works as it is"
	for _, o := range own {
		if len(o.Warnings) > 0 {
			text += ", with the warning: " + strings.Join(o.Warnings, "; ")
		}
	}
	return text, false
}

// judgePods names pods that would be refused when they start again, and counts the others.
func (c Cluster) judgePods() []Note {
	networks := map[string]Network{}
	for _, n := range c.Networks {
		networks[n.Namespace+"/"+n.Name] = n
	}
	var out []Note
	works := 0
	for _, p := range c.Pods {
		problem := judgePod(p, networks)
		if problem == "" {
			works++
			continue
		}
		out = append(out, Note{Object: "Pod " + p.Namespace + "/" + p.Name, Text: problem, Lost: true})
	}
	if works > 0 {
		out = append(out, Note{Object: fmt.Sprintf("%d pods", works), Text: "ask for networks as Culvert reads them; running pods keep what they have"})
	}
	return out
}

// judgePod says what is wrong with the networks that a pod asks for, or nothing.
func judgePod(p Pod, networks map[string]Network) string {
	elements, err := netannotation.Parse(p.Annotations[netannotation.Networks], p.Namespace)
	if err != nil {
		return "would be refused: " + err.Error()
	}
	for _, e := range elements {
		n, ok := networks[e.Namespace+"/"+e.Name]
		if !ok {
			return fmt.Sprintf("would be refused: there is no network %s/%s", e.Namespace, e.Name)
		}
		l, err := cni.ParseDefinition(n.NetworkDefinition)
		if err != nil {
			continue // said of the network
		}
		for capability, asked := range map[string]bool{"mac": e.MAC != nil, "ips": len(e.IPs) > 0} {
			if asked && !slices.ContainsFunc(l.Plugins, func(p netconf.Plugin) bool { return p.Takes(capability) }) {
				return netconf.DescribeIgnored(e.Namespace+"/"+e.Name, capability)
			}
		}
	}
	return ""
}
