// Package verdict judges the objects in people's files: NetworkAttachmentDefinitions, pods that
// ask for networks, configurations of the SR-IOV device plugin, objects of the SR-IOV operator,
// NodePolicies and host.yaml. It needs no cluster. It reads the objects by the same code as the
// admission webhook and the nodes: network/config, intake/pod, desired and migrate. The command
// culvert net check shows its verdicts.
package verdict

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/admin/migrate"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/node/intake/pod"
	"github.com/culvert-net/culvert/internal/suggest"
	"github.com/culvert-net/culvert/internal/vf"
)

// Outcome is the outcome of judging an object.
type Outcome string

// The outcomes, the best first.
const (
	Works   Outcome = "works"
	Warned  Outcome = "works, with warnings"
	Refused Outcome = "refused"
)

// Verdict is the outcome for one object, with the reason.
type Verdict struct {
	Object  string  `json:"object"` // kind namespace/name
	From    string  `json:"from"`   // file and line
	Outcome Outcome `json:"outcome"`
	// Warnings lists accepted settings that the author may not have meant, and parts that could not
	// be judged.
	Warnings []string `json:"warnings,omitempty"`
	// Refusals says why the object, or a part of it, is not served.
	Refusals []string `json:"refusals,omitempty"`
}

// Kinds that are judged, besides those of package migrate.
const (
	kindNetwork = "NetworkAttachmentDefinition"
	kindPod     = "Pod"
	kindCronJob = "CronJob"
	kindPolicy  = "NodePolicy"
	kindHost    = "host.yaml"
)

// apiVersions has the only apiVersion of the kinds that are judged.
var apiVersions = map[string]string{
	kindNetwork: "k8s.cni.cncf.io/v1", kindPolicy: v1alpha1.GroupVersion.String(), kindPod: "v1", migrate.KindConfigMap: "v1",
	"ReplicationController": "v1", kindCronJob: "batch/v1", "Job": "batch/v1",
	"DaemonSet": "apps/v1", "Deployment": "apps/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1",
	migrate.KindPolicy: operatorVersion, migrate.KindNetwork: operatorVersion, migrate.KindIBNetwork: operatorVersion,
	migrate.KindOVSNetwork: operatorVersion, migrate.KindPoolConfig: operatorVersion, migrate.KindOperator: operatorVersion,
}

// operatorVersion is that of the operator's kinds.
const operatorVersion = "sriovnetwork.openshift.io/v1"

// kindsOf has the kinds of the groups of which culvert net check knows every kind.
var kindsOf = map[string][]string{
	"k8s.cni.cncf.io":           {kindNetwork, "MultiNetworkPolicy"},
	v1alpha1.GroupVersion.Group: {kindPolicy, "NodeState", "AddressPool"},
}

// findKindMistake returns an error for a kind that its group does not have.
func findKindMistake(o migrate.Object) error {
	group, _, _ := strings.Cut(o.APIVersion, "/")
	known := kindsOf[group]
	if known == nil || slices.Contains(known, o.Kind) {
		return nil
	}
	return fmt.Errorf("kind %s: %w: %s has %s%s", excerpt.Quote(o.Kind), vf.ErrInvalid, group, strings.Join(known, ", "), suggest.DidYouMean(o.Kind, known))
}

// Of judges the objects that Culvert reads, in their order. It finds the networks that pods ask
// for, the pools of networks and namespace isolation among the objects.
func Of(objects []migrate.Object) []Verdict {
	var out []Verdict
	all := newFiles(objects)
	for _, o := range objects {
		if v, ok := judgeObject(o, all); ok {
			out = append(out, v)
		}
	}
	return out
}

func judgeObject(o migrate.Object, all files) (Verdict, bool) {
	v := Verdict{Object: o.String(), From: o.From}
	if mistake := cmp.Or(o.Err, findKindMistake(o)); mistake != nil {
		v.addRefusal("%v", mistake)
		v.setOutcome()
		return v, true
	}
	switch o.Kind {
	case kindNetwork:
		if _, isText := o.Spec["config"].(string); o.Spec["config"] != nil && !isText {
			v.addRefusal("spec.config: want a text that has JSON: write config: '{...}'")
		} else {
			v.judgeNetwork(networkOf(o), all)
		}
	case kindPolicy:
		v.judgePolicy(o)
	case kindHost:
		v.judgeHostFile(o)
	case migrate.KindConfigMap:
		if !v.configMap(o) {
			return v, false
		}
	case migrate.KindPolicy, migrate.KindNetwork, migrate.KindIBNetwork, migrate.KindOVSNetwork, migrate.KindPoolConfig, migrate.KindOperator:
		v.judgeOperator(o, all)
	default:
		p, ok := podOf(o)
		if !ok {
			return v, false
		}
		v.judgePod(p, all)
	}
	if want := apiVersions[o.Kind]; want != "" && o.APIVersion != "" && o.APIVersion != want {
		v.addRefusal("apiVersion %s: the API server has no %s of that version: write %s", excerpt.Quote(o.APIVersion), o.Kind, want)
	}
	v.setOutcome()
	return v, true
}

// setOutcome derives the outcome.
func (v *Verdict) setOutcome() {
	switch {
	case len(v.Refusals) > 0:
		v.Outcome = Refused
	case len(v.Warnings) > 0:
		v.Outcome = Warned
	default:
		v.Outcome = Works
	}
}

func (v *Verdict) addWarning(format string, args ...any) {
	v.Warnings = append(v.Warnings, excerpt.Clean(fmt.Sprintf(format, args...)))
}

func (v *Verdict) addRefusal(format string, args ...any) {
	v.Refusals = append(v.Refusals, excerpt.Clean(fmt.Sprintf(format, args...)))
}

func (v *Verdict) judgeNetwork(n api.NetworkDefinition, all files) {
	j := config.Judge(n)
	switch {
	case j.Err != nil:
		v.addRefusal("%v", j.Err)
	case len(j.List.Plugins) == 0:
		v.addWarning("its configuration is a file on the nodes, which cannot be judged here")
	}
	if j.NoAddress != nil {
		v.addRefusal("%v", j.NoAddress)
	}
	v.Warnings = append(v.Warnings, j.Warnings...)
	v.poolExists(n, all)
}

// judgePod judges the annotations of a pod.
func (v *Verdict) judgePod(p api.Pod, all files) {
	ignored, unknown, err := pod.Judge(context.Background(), p, all.rules)
	if err != nil {
		v.addRefusal("%v", excerpt.Error(err))
	}
	for _, text := range ignored {
		v.addWarning("%s", text)
	}
	for _, name := range unknown {
		v.addWarning("network %s has no configuration in these files, and was not judged", name)
	}
}

// judgeOperator judges an object of the SR-IOV operator by the objects to which it is converted.
func (v *Verdict) judgeOperator(o migrate.Object, all files) {
	r := migrate.Convert([]migrate.Object{o}, migrate.Options{})
	for _, n := range r.Notes {
		if !n.Lost {
			continue
		}
		text := strings.TrimPrefix(n.String(), n.Object+": ")
		if len(r.Manifests) == 0 {
			v.addRefusal("%s", text)
		} else {
			v.addWarning("%s", text)
		}
	}
	for _, m := range r.Manifests {
		made, err := objectOf(m)
		if err != nil {
			v.addRefusal("%v", err)
		} else if made.Kind == kindNetwork {
			v.judgeNetwork(networkOf(made), all)
		}
	}
}

// networkOf returns the network of an object.
func networkOf(o migrate.Object) api.NetworkDefinition {
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
		if i < 0 || strings.TrimSpace(networkOf(objects[i]).Config) == "" {
			return api.NetworkDefinition{}, fmt.Errorf("network %s/%s: %w", namespace, name, vf.ErrNotFound)
		}
		return networkOf(objects[i]), nil
	}
}
