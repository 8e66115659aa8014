package verdict

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/admin/migrate"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/suggest"
	"github.com/culvert-net/culvert/internal/vf"
)

// findKindMistake returns an error for a kind that its group does not have.
func findKindMistake(o migrate.Object) error {
	group, _, hasVersion := strings.Cut(o.APIVersion, "/")
	if !hasVersion {
		group = ""
	}
	if known := kindsOf[group]; known != nil && !slices.Contains(known, o.Kind) {
		return fmt.Errorf("kind %s: %w: %s has %s%s", excerpt.Quote(o.Kind), vf.ErrInvalid, group, strings.Join(known, ", "), suggest.DidYouMean(o.Kind, known))
	}
	known := someKindsOf[group]
	if o.APIVersion == "" {
		known = slices.Concat(slices.Concat(slices.Collect(maps.Values(someKindsOf))...), slices.Concat(slices.Collect(maps.Values(kindsOf))...))
		slices.Sort(known)
	}
	if near := suggest.Nearest(o.Kind, known); near != "" && !strings.HasSuffix(o.Kind, "List") && !slices.Contains(known, o.Kind) {
		return fmt.Errorf("kind %s: %w: the API server has no such kind: did you mean %s?", excerpt.Quote(o.Kind), vf.ErrInvalid, near)
	}
	return nil
}

// addMisspelled warns of keys, annotations and an API group that are near a known word.
func (v *Verdict) addMisspelled(d document) {
	if d.whole["apiVersion"] == nil && d.whole["kind"] == nil && d.whole["metadata"] == nil {
		return // it is no object of Kubernetes
	}
	v.misspelledKeys("object", d.whole, objectKeys)
	v.misspelledKeys("metadata", valueBelow(d.whole, "metadata"), metadataKeys)
	if known := specKeys[d.Kind]; known != nil {
		v.misspelledKeys("spec", valueBelow(d.whole, "spec"), known)
	}
	v.misspelledGroup(d)
	for _, p := range podSpecsIn(d) {
		if p.place != "" {
			v.misspelledKeys(excerpt.Line(keyPath(p.place, "metadata")), p.metadata, metadataKeys)
		}
		place := keyPath(p.place, "spec")
		v.misspelledKeys(excerpt.Line(place), p.spec, podSpecKeys)
		for _, list := range []string{"initContainers", "containers"} {
			for i, c := range objectsIn(p.spec[list]) {
				v.misspelledKeys(excerpt.Line(elementPath(keyPath(place, list), i)), c, containerKeys)
				v.misspelledKeys(excerpt.Line(elementPath(keyPath(place, list), i)+".resources"), valueBelow(c, "resources"), resourceKeys)
			}
		}
	}
}

// misspelledKeys warns of keys of an object that are unknown and near a known one.
func (v *Verdict) misspelledKeys(place string, object map[string]any, known []string) {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if near := suggest.Nearest(key, known); near != "" && !slices.Contains(known, key) {
			v.addWarning("%s: unknown key %s: did you mean %s?", place, excerpt.Quote(key), near)
		}
	}
}

// misspelledGroup warns of an unknown API group that is near that of the object's kind.
func (v *Verdict) misspelledGroup(d document) {
	group, _, _ := strings.Cut(d.APIVersion, "/")
	for _, near := range slices.Sorted(maps.Keys(someKindsOf)) {
		if near != "" && group != near && apiVersions[d.Kind] == "" && strings.Count(group, ".") == strings.Count(near, ".") &&
			slices.Contains(someKindsOf[near], d.Kind) && suggest.Nearest(group, []string{near}) != "" {
			v.addWarning("apiVersion %s: unknown group: did you mean %s?", excerpt.Quote(d.APIVersion), near)
		}
	}
}

// walkMaps calls visit for an object and each object in it, with their paths.
func walkMaps(whole map[string]any, visit func(path string, m map[string]any)) {
	left := mostMaps
	var walk func(value any, path string, depth int)
	walk = func(value any, path string, depth int) {
		if depth > deepestLevel || left < 0 {
			return
		}
		switch v := value.(type) {
		case map[string]any:
			left--
			visit(path, v)
			for _, key := range slices.Sorted(maps.Keys(v)) {
				walk(v[key], keyPath(path, key), depth+1)
			}
		case []any:
			for i, element := range v {
				walk(element, elementPath(path, i), depth+1)
			}
		}
	}
	walk(whole, "", 0)
}

// podSpec has the keys of a pod, and where they are.
type podSpec struct {
	place          string
	metadata, spec map[string]any
}

// podSpecsIn finds the pods in a document, whether or not they ask for networks: the objects whose
// spec has containers.
func podSpecsIn(d document) (out []podSpec) {
	walkMaps(d.whole, func(path string, m map[string]any) {
		if spec := valueBelow(m, "spec"); spec["containers"] != nil {
			out = append(out, podSpec{path, valueBelow(m, "metadata"), spec})
		}
	})
	return out
}

// misspelledAnnotations warns of annotations that are unknown and near those that are read, and
// reports whether there are any.
func (v *Verdict) misspelledAnnotations(d document) bool {
	before := len(v.Warnings)
	walkMaps(d.whole, func(path string, m map[string]any) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			annotations, isMap := m[key].(map[string]any)
			if isMap && strings.HasSuffix(strings.ToLower(key), "annotations") {
				v.misspelledAnnotationsOf(keyPath(path, key), annotations)
			}
		}
	})
	return len(v.Warnings) > before
}

func (v *Verdict) misspelledAnnotationsOf(place string, annotations map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if slices.Contains(annotationKeys, key) || !strings.Contains(key, "/") && !strings.Contains(key, "cni") {
			continue
		}
		if near := suggest.Nearest(key, annotationKeys); near != "" {
			v.addWarning("%s: unknown annotation %s, which has no effect: did you mean %s?", excerpt.Line(place), excerpt.Quote(key), near)
		}
	}
}

// misspelledTypes warns of plugins of a network that are unknown and near a known one.
func (v *Verdict) misspelledTypes(j config.Judgement) {
	for i, p := range j.List.Plugins {
		if near := suggest.Nearest(p.Type, pluginTypes); near != "" && !slices.Contains(pluginTypes, p.Type) {
			place := "type"
			if len(j.List.Plugins) > 1 {
				place = fmt.Sprintf("plugins[%d].type", i)
			}
			v.addWarning("spec.config: %s %s: nodes execute a plugin of that name: did you mean %s?", place, excerpt.Quote(p.Type), near)
		}
	}
}

// misspelledConfig warns of keys of a network's configuration that are near those of every plugin.
// Culvert's own plugins report all of their keys.
func (v *Verdict) misspelledConfig(text string) {
	var whole map[string]any
	if json.Unmarshal([]byte(text), &whole) != nil {
		return
	}
	if plugins := objectsIn(whole["plugins"]); plugins != nil {
		for i, p := range plugins {
			v.misspelledPlugin(fmt.Sprintf("spec.config: plugins[%d]", i), p)
		}
		return
	}
	v.misspelledPlugin("spec.config", whole)
}

func (v *Verdict) misspelledPlugin(place string, plugin map[string]any) {
	if name, _ := plugin["type"].(string); netconf.IsOwnType(name) {
		return
	}
	missing := slices.DeleteFunc([]string{"type", "ipam", "capabilities"}, func(key string) bool { return plugin[key] != nil })
	if plugin["type"] == nil {
		missing = append(missing, "plugins")
	}
	for _, key := range slices.Sorted(maps.Keys(plugin)) {
		if near := suggest.Nearest(key, missing); near != "" && !strings.EqualFold(key, near) {
			v.addWarning("%s: unknown key %s: did you mean %s?", place, excerpt.Quote(key), near)
		}
	}
}

// misspelledPools warns of a text of a ConfigMap that is a configuration of the device plugin but for
// its first key.
func (v *Verdict) misspelledPools(name, text string) bool {
	var whole map[string]any
	if !strings.Contains(text, "resourceName") || yaml.Unmarshal([]byte(text), &whole) != nil || whole["resourceList"] != nil {
		return false
	}
	before := len(v.Warnings)
	v.misspelledKeys(name, whole, []string{"resourceList"})
	return len(v.Warnings) > before
}

// unknownField finds the key in an error of encoding/json.
var unknownField = regexp.MustCompile(`unknown field "([^"]*)"`)

// suggestField returns the key that an unknown one in an error resembles, among those of a type and
// the types of its fields, as the tail of a message.
func suggestField(err error, of any) string {
	match := unknownField.FindStringSubmatch(err.Error())
	if match == nil {
		return ""
	}
	var known []string
	collectKeys(reflect.TypeOf(of), &known, map[reflect.Type]bool{})
	return suggest.DidYouMean(match[1], known)
}

// collectKeys collects the JSON keys of a type and of the types of its fields.
func collectKeys(t reflect.Type, known *[]string, seen map[reflect.Type]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		collectKeys(t.Elem(), known, seen)
	case reflect.Struct:
		if seen[t] {
			return
		}
		seen[t] = true
		for i := range t.NumField() {
			if key, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); key != "" && key != "-" {
				*known = append(*known, key)
			}
			collectKeys(t.Field(i).Type, known, seen)
		}
	}
}

// annotationKeys are the annotations of pods and networks that are read.
var annotationKeys = []string{
	netannotation.Networks, netannotation.Status, "k8s.v1.cni.cncf.io/networks-status", netannotation.DefaultNetwork, netannotation.ResourceName,
	"k8s.v1.cni.cncf.io/nodeSelector", "k8s.v1.cni.cncf.io/policy-for", netannotation.Namespaces, netannotation.KeepAddress, netannotation.Confirmed,
	migrate.AnnotationFrom,
}

// kindsOf has the kinds of the groups of which culvert net check knows every kind.
var kindsOf = map[string][]string{
	"k8s.cni.cncf.io":           {kindNetwork, "MultiNetworkPolicy", "IPAMClaim"},
	v1alpha1.GroupVersion.Group: {kindPolicy, "NodeState", kindAddressPool},
}

// someKindsOf has kinds of other groups. An unknown kind that is near one of these is a mistake.
var someKindsOf = map[string][]string{
	"": {
		"Binding", "ComponentStatus", migrate.KindConfigMap, "Endpoints", "Event", "LimitRange", "List", "Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim",
		kindPod, "PodList", "PodTemplate", "ReplicationController", "ResourceQuota", "Secret", "Service", "ServiceAccount", "ServiceList",
	},
	"apps":  {"ControllerRevision", kindDaemonSet, kindDeployment, "ReplicaSet", "StatefulSet"},
	"batch": {"Job", kindCronJob},
	"sriovnetwork.openshift.io": {
		migrate.KindPolicy, "SriovNetworkNodeState", migrate.KindNetwork, migrate.KindIBNetwork, migrate.KindOVSNetwork, migrate.KindPoolConfig, migrate.KindOperator,
	},
	"kubevirt.io": {
		"KubeVirt", "VirtualMachine", kindGuest, "VirtualMachineInstanceMigration", "VirtualMachineInstancePreset", "VirtualMachineInstanceReplicaSet",
	},
	"kubeflow.org":             {"JAXJob", "MPIJob", "MXJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob"},
	"jobset.x-k8s.io":          {"JobSet"},
	"leaderworkerset.x-k8s.io": {"LeaderWorkerSet"},
}

// pluginTypes are CNI plugins: Culvert's, those of the CNI project, and those of others.
var pluginTypes = []string{
	"culvert", "culvert-cni", "sriov", "ib-sriov", "ib-sriov-cni", "multus", "multus-shim", "multus-cni",
	"bandwidth", "bridge", "dummy", "firewall", "host-device", "ipvlan", "loopback", "macvlan", "portmap", "ptp", "sbr", "tap", "tuning", "vlan", "vrf", "win-bridge", "win-overlay",
	"accelerated-bridge", "antrea", "aws-cni", "azure-vnet", "bond", "calico", "cilium-cni", "cnv-bridge", "cnv-tuning", "coordinator", "dpdk", "flannel", "ifacer", "ipoib", "ipvtap", "kube-ovn",
	"kuryr-cni", "macvtap", "network-policy", "ovn-k8s-cni-overlay", "ovs", "ovs-mirror-consumer", "ovs-mirror-producer", "passt", "rdma", "route-override", "userspace", "vhostuser", "vxlan", "weave-net",
}
