// Package verdict says what becomes of the objects in people's files: network attachment
// definitions, pods that ask for networks, configurations of the SR-IOV device plugin, and
// objects of the SR-IOV operator. It asks no cluster. It reads them by the code of those
// that will: intake/cni, as the admission webhook and the nodes do, intake/pod, desired and
// migrate. The command culvert net check shows what it says.
package verdict

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/excerpt"
	"github.com/culvert-net/culvert/intake/cni"
	"github.com/culvert-net/culvert/intake/pod"
	"github.com/culvert-net/culvert/migrate"
	"github.com/culvert-net/culvert/vf"
)

// Outcome is what becomes of an object.
type Outcome string

// The outcomes, the best first.
const (
	Works   Outcome = "works"
	Warned  Outcome = "works, with warnings"
	Refused Outcome = "refused"
)

// Verdict is what becomes of one object, and why.
type Verdict struct {
	Object  string  `json:"object"` // kind namespace/name
	From    string  `json:"from"`   // file and line
	Outcome Outcome `json:"outcome"`
	// Warnings says what is accepted and may not be meant, and what could not be judged.
	Warnings []string `json:"warnings,omitempty"`
	// Refusals says why the object, or a part of it, is not served.
	Refusals []string `json:"refusals,omitempty"`
}

// Kinds that are judged, besides those of package migrate.
const (
	kindNetwork = "NetworkAttachmentDefinition"
	kindPod     = "Pod"
	kindCronJob = "CronJob"
)

// Of judges the objects of which something can be said, in their order. The networks that
// pods ask for are found among the objects.
func Of(objects []migrate.Object) []Verdict {
	var out []Verdict
	find := definitionsIn(objects)
	for _, o := range objects {
		if v, ok := judge(o, find); ok {
			out = append(out, v)
		}
	}
	return out
}

func judge(o migrate.Object, find pod.Definitions) (Verdict, bool) {
	v := Verdict{Object: o.String(), From: o.From}
	switch o.Kind {
	case kindNetwork:
		v.network(definition(o))
	case migrate.KindConfigMap:
		if !v.configMap(o) {
			return v, false
		}
	case migrate.KindPolicy, migrate.KindNetwork, migrate.KindIBNetwork, migrate.KindOVSNetwork, migrate.KindPoolConfig:
		v.operator(o)
	default:
		p, ok := podOf(o)
		if !ok {
			return v, false
		}
		v.pod(p, find)
	}
	v.settle()
	return v, true
}

// settle derives the outcome.
func (v *Verdict) settle() {
	switch {
	case len(v.Refusals) > 0:
		v.Outcome = Refused
	case len(v.Warnings) > 0:
		v.Outcome = Warned
	default:
		v.Outcome = Works
	}
}

func (v *Verdict) warn(format string, args ...any) {
	v.Warnings = append(v.Warnings, excerpt.Clean(fmt.Sprintf(format, args...)))
}

func (v *Verdict) refuse(format string, args ...any) {
	v.Refusals = append(v.Refusals, excerpt.Clean(fmt.Sprintf(format, args...)))
}

func (v *Verdict) network(n api.NetworkDefinition) {
	j := cni.Judge(n)
	switch {
	case j.Err != nil:
		v.refuse("%v", j.Err)
	case len(j.List.Plugins) == 0:
		v.warn("its configuration is a file on the nodes, which cannot be judged here")
	}
	v.Warnings = append(v.Warnings, j.Warnings...)
}

// pod judges the annotations of a pod.
func (v *Verdict) pod(p api.Pod, find pod.Definitions) {
	ignored, unknown, err := pod.Judge(context.Background(), p, find)
	if err != nil {
		v.refuse("%v", excerpt.Error(err))
	}
	for _, text := range ignored {
		v.warn("%s", text)
	}
	for _, name := range unknown {
		v.warn("network %s has no configuration in these files, and was not judged", name)
	}
}

// operator judges an object of the SR-IOV operator by what it is converted to.
func (v *Verdict) operator(o migrate.Object) {
	r := migrate.Convert([]migrate.Object{o}, migrate.Options{})
	for _, n := range r.Notes {
		if !n.Lost {
			continue
		}
		text := strings.TrimPrefix(n.String(), n.Object+": ")
		if len(r.Manifests) == 0 {
			v.refuse("%s", text)
		} else {
			v.warn("%s", text)
		}
	}
	for _, m := range r.Manifests {
		made, err := objectOf(m)
		if err != nil {
			v.refuse("%v", err)
		} else if made.Kind == kindNetwork {
			v.network(definition(made))
		}
	}
}

// definition returns the network of an object.
func definition(o migrate.Object) api.NetworkDefinition {
	config, _ := o.Spec["config"].(string)
	return api.NetworkDefinition{Namespace: cmp.Or(o.Namespace, defaultNamespace), Name: o.Name, Annotations: o.Annotations, Config: config}
}

// defaultNamespace is that of objects without one.
const defaultNamespace = "default"

// definitionsIn finds networks among objects.
func definitionsIn(objects []migrate.Object) pod.Definitions {
	return func(namespace, name string) (api.NetworkDefinition, error) {
		i := slices.IndexFunc(objects, func(o migrate.Object) bool {
			return o.Kind == kindNetwork && o.Name == name && cmp.Or(o.Namespace, defaultNamespace) == namespace
		})
		if i < 0 || strings.TrimSpace(definition(objects[i]).Config) == "" {
			return api.NetworkDefinition{}, fmt.Errorf("network %s/%s: %w", namespace, name, vf.ErrNotFound)
		}
		return definition(objects[i]), nil
	}
}
