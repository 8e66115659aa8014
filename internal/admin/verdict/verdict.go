// Package verdict judges the objects in people's files: NetworkAttachmentDefinitions, pods that
// ask for networks in objects of any kind, configurations of the SR-IOV device plugin, objects of
// the SR-IOV operator, NodePolicies, AddressPools and host.yaml. It needs no cluster. It reads the objects by the same code as the
// admission webhook and the nodes: network/config, intake/pod, desired and migrate. The command
// culvert net check shows its verdicts.
package verdict

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/admin/migrate"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/node/intake/pod"
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
	kindNetwork     = migrate.KindDefinition
	kindPod         = "Pod"
	kindCronJob     = "CronJob"
	kindDaemonSet   = "DaemonSet"
	kindDeployment  = "Deployment"
	kindPolicy      = "NodePolicy"
	kindAddressPool = "AddressPool"
	kindHost        = "host.yaml"
)

// apiVersions has the only apiVersion of the kinds that are judged.
var apiVersions = map[string]string{
	kindNetwork: "k8s.cni.cncf.io/v1", kindPolicy: v1alpha1.GroupVersion.String(), kindAddressPool: v1alpha1.GroupVersion.String(), kindPod: "v1", migrate.KindConfigMap: "v1",
	"ReplicationController": "v1", kindCronJob: "batch/v1", "Job": "batch/v1",
	kindDaemonSet: "apps/v1", kindDeployment: "apps/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1",
	migrate.KindPolicy: operatorVersion, migrate.KindNetwork: operatorVersion, migrate.KindIBNetwork: operatorVersion,
	migrate.KindOVSNetwork: operatorVersion, migrate.KindPoolConfig: operatorVersion, migrate.KindOperator: operatorVersion,
}

// operatorVersion is that of the operator's kinds.
const operatorVersion = "sriovnetwork.openshift.io/v1"

// Of judges the objects that Culvert reads, in their order. It finds the networks that pods ask
// for, the pools of networks and namespace isolation among the objects.
func Of(objects []migrate.Object) []Verdict {
	var out []Verdict
	documents := readDocuments(objects)
	all := newFiles(documents)
	for _, d := range documents {
		if v, ok := judgeDocument(d, all); ok {
			out = append(out, v)
		}
	}
	return out
}

// judgeDocument judges an object. ok is false for an object that Culvert does not read and that has
// no mistake.
func judgeDocument(d document, all files) (v Verdict, ok bool) {
	v = Verdict{Object: d.String(), From: d.From}
	if mistake := cmp.Or(d.Err, findKindMistake(d.Object)); mistake != nil {
		v.addRefusal("%v", mistake)
		v.addMisspelled(d)
		v.setOutcome()
		return v, true
	}
	isRead := v.judgeKind(d, all)
	if v.misspelledAnnotations(d) || isRead {
		v.addMisspelled(d)
		if want := apiVersions[d.Kind]; want != "" && d.APIVersion != "" && d.APIVersion != want {
			v.addRefusal("apiVersion %s: the API server has no %s of that version: write %s", excerpt.Quote(d.APIVersion), d.Kind, want)
		}
	}
	v.addRepeated(d)
	v.setOutcome()
	return v, isRead || v.Outcome != Works
}

// judgeKind judges an object as its kind is judged, and reports whether Culvert reads it.
func (v *Verdict) judgeKind(d document, all files) bool {
	o := d.Object
	switch o.Kind {
	case kindNetwork:
		if _, isText := o.Spec["config"].(string); o.Spec["config"] != nil && !isText {
			v.addRefusal("spec.config: want a text that has JSON: write config: '{...}'")
		} else {
			v.judgeNetwork(networkOf(o), all)
		}
	case kindPolicy:
		v.judgePolicy(o)
	case kindAddressPool:
		return v.judgeAddressPool(o)
	case kindHost:
		v.judgeHostFile(o)
	case migrate.KindConfigMap:
		return v.configMap(o)
	case migrate.KindPolicy, migrate.KindNetwork, migrate.KindIBNetwork, migrate.KindOVSNetwork, migrate.KindPoolConfig, migrate.KindOperator:
		v.judgeOperator(o, all)
	default:
		return v.judgePods(d, all)
	}
	return true
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
	if _, _, err := netannotation.ParseNodeSelector(n.Annotations); err != nil {
		v.addWarning("%v", err)
	}
	v.Warnings = append(v.Warnings, j.Warnings...)
	v.misspelledTypes(j)
	v.misspelledConfig(n.Config)
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
		if object := all.unserved[name]; object != "" {
			v.addWarning("network %s is that of %s in these files, which makes no network of Culvert, and was not judged", name, object)
			continue
		}
		v.addWarning("network %s has no configuration in these files, and was not judged", name)
	}
}

// judgeOperator judges an object of the SR-IOV operator by the objects to which it is converted.
func (v *Verdict) judgeOperator(o migrate.Object, all files) {
	r := migrate.Convert([]migrate.Object{o}, migrate.Options{})
	isSetting := o.Kind == migrate.KindPoolConfig || o.Kind == migrate.KindOperator // which become no object
	for _, n := range r.Notes {
		if !n.Lost {
			continue
		}
		text := strings.TrimPrefix(n.String(), n.Object+": ")
		if len(r.Manifests) == 0 && !isSetting {
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
