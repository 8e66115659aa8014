package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/network/netconf"
)

// Groups that the types below are of.
var (
	coreV1      = schema.GroupVersion{Version: "v1"}
	appsV1      = schema.GroupVersion{Group: "apps", Version: "v1"}
	discoveryV1 = schema.GroupVersion{Group: "discovery.k8s.io", Version: "v1"}
	resourceV1  = schema.GroupVersion{Group: "resource.k8s.io", Version: "v1"}
	networkV1   = schema.GroupVersion{Group: "k8s.cni.cncf.io", Version: "v1"}
)

// object has the metadata that all kinds share. Only the fields that culvertd reads are decoded,
// since the managedFields of a pod are larger than the rest.
type object struct {
	metav1.TypeMeta `json:",inline"`
	// ObjectMeta has to be the library's, for its cache; Strip empties it.
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// pod is the part of a core/v1 Pod that is read.
type pod struct {
	object  `json:",inline"`
	Spec    podSpec   `json:"spec,omitempty"`
	Status  podStatus `json:"status,omitempty"`
	partial bool      // its annotations are left out, but for the static one
}

// maxAnnotations bounds the bytes of a pod's annotations that are kept: a node has some
// hundred pods, and each may have 256 KiB.
const maxAnnotations = 8 << 10

// network is a NetworkAttachmentDefinition.
type network struct {
	object `json:",inline"`
	Spec   struct {
		Config networkText `json:"config"`
	} `json:"spec,omitempty"`
}

// networkText is spec.config of a network. A text that is longer than netconf.MaxText is dropped as it
// is decoded, and its length kept: one list has the networks of all tenants.
type networkText struct {
	text    string
	dropped int // bytes
}

// UnmarshalJSON reads a text. It does not decode a text that is too large, which would take three
// times its size.
func (c *networkText) UnmarshalJSON(raw []byte) error {
	*c = networkText{}
	if n := textLength(raw); n > netconf.MaxText {
		c.dropped = n
		return nil
	}
	if err := json.Unmarshal(raw, &c.text); err != nil {
		return fmt.Errorf("spec.config: %w", err)
	}
	if len(c.text) > netconf.MaxText {
		*c = networkText{dropped: len(c.text)}
	}
	return nil
}

// textLength returns the bytes of a text in JSON; an escaped character counts as one.
func textLength(raw []byte) (n int) {
	raw = bytes.Trim(raw, `"`)
	for i := 0; i < len(raw); n++ {
		switch {
		case raw[i] != '\\' || i+1 == len(raw):
			i++
		case raw[i+1] == 'u':
			i += len(`\u0000`)
		default:
			i += len(`\n`)
		}
	}
	return n
}

// clusterNode is the part of a core/v1 Node that is read: its labels.
type clusterNode struct {
	object `json:",inline"`
}

// configMap is a core/v1 ConfigMap of texts.
type configMap struct {
	object `json:",inline"`
	Data   map[string]string `json:"data,omitempty"`
}

// daemonSetMeta is the part of an apps/v1 DaemonSet that is read: whether it is there.
type daemonSetMeta struct {
	object `json:",inline"`
}

// list is a list of objects of one kind.
type list[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []T `json:"items"`
}

type (
	podList       list[pod]
	networkList   list[network]
	nodeList      list[clusterNode]
	configMapList list[configMap]
	daemonSetList list[daemonSetMeta]
)

func (o object) copyMeta() object {
	out := object{TypeMeta: o.TypeMeta}
	o.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}

// DeepCopyObject is for runtime.Object.
func (p *pod) DeepCopyObject() runtime.Object { return p.copyPod() }

// copyPod shares the claims, which nothing changes.
func (p *pod) copyPod() *pod { return &pod{p.copyMeta(), p.Spec, p.Status, p.partial} }

// DeepCopyObject is for runtime.Object.
func (n *network) DeepCopyObject() runtime.Object {
	out := *n
	out.object = n.copyMeta()
	return &out
}

// DeepCopyObject is for runtime.Object.
func (l *podList) DeepCopyObject() runtime.Object {
	out := &podList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for _, p := range l.Items {
		out.Items = append(out.Items, *p.copyPod())
	}
	return out
}

// DeepCopyObject is for runtime.Object.
func (l *networkList) DeepCopyObject() runtime.Object {
	out := &networkList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for _, n := range l.Items {
		n.object = n.copyMeta()
		out.Items = append(out.Items, n)
	}
	return out
}

// DeepCopyObject is for runtime.Object.
func (n *clusterNode) DeepCopyObject() runtime.Object { return &clusterNode{n.copyMeta()} }

// DeepCopyObject is for runtime.Object.
func (l *nodeList) DeepCopyObject() runtime.Object {
	out := &nodeList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for _, n := range l.Items {
		out.Items = append(out.Items, clusterNode{n.copyMeta()})
	}
	return out
}

// DeepCopyObject is for runtime.Object.
func (m *configMap) DeepCopyObject() runtime.Object {
	return &configMap{m.copyMeta(), maps.Clone(m.Data)}
}

// DeepCopyObject is for runtime.Object.
func (l *configMapList) DeepCopyObject() runtime.Object {
	out := &configMapList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for _, m := range l.Items {
		out.Items = append(out.Items, configMap{m.copyMeta(), maps.Clone(m.Data)})
	}
	return out
}

// DeepCopyObject is for runtime.Object.
func (d *daemonSetMeta) DeepCopyObject() runtime.Object { return &daemonSetMeta{d.copyMeta()} }

// DeepCopyObject is for runtime.Object.
func (l *daemonSetList) DeepCopyObject() runtime.Object {
	out := &daemonSetList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for _, d := range l.Items {
		out.Items = append(out.Items, daemonSetMeta{d.copyMeta()})
	}
	return out
}

// newScheme returns a scheme with the types of this package.
func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypeWithName(coreV1.WithKind("Pod"), &pod{})
	s.AddKnownTypeWithName(coreV1.WithKind("PodList"), &podList{})
	s.AddKnownTypeWithName(networkV1.WithKind("NetworkAttachmentDefinition"), &network{})
	s.AddKnownTypeWithName(networkV1.WithKind("NetworkAttachmentDefinitionList"), &networkList{})
	s.AddKnownTypeWithName(coreV1.WithKind("Namespace"), &namespace{})
	s.AddKnownTypeWithName(coreV1.WithKind("Node"), &clusterNode{})
	s.AddKnownTypeWithName(coreV1.WithKind("NodeList"), &nodeList{})
	s.AddKnownTypeWithName(coreV1.WithKind("ConfigMap"), &configMap{})
	s.AddKnownTypeWithName(coreV1.WithKind("ConfigMapList"), &configMapList{})
	s.AddKnownTypeWithName(appsV1.WithKind("DaemonSet"), &daemonSetMeta{})
	s.AddKnownTypeWithName(appsV1.WithKind("DaemonSetList"), &daemonSetList{})
	s.AddKnownTypeWithName(coreV1.WithKind("Service"), &clusterService{})
	s.AddKnownTypeWithName(discoveryV1.WithKind("EndpointSlice"), &endpointSlice{})
	s.AddKnownTypeWithName(resourceV1.WithKind("ResourceClaim"), &resourceClaim{})
	s.AddKnownTypeWithName(v1alpha1.GroupVersion.WithKind("NodePolicy"), &nodePolicy{})
	s.AddKnownTypeWithName(v1alpha1.GroupVersion.WithKind("NodePolicyList"), &nodePolicyList{})
	s.AddKnownTypes(v1alpha1.GroupVersion, &v1alpha1.NodeState{}, &v1alpha1.NodeStateList{}, &v1alpha1.AddressPool{}, &v1alpha1.AddressPoolList{})
	s.AddKnownTypeWithName(resourceV1.WithKind("ResourceSlice"), &resourceSlice{})
	s.AddKnownTypeWithName(resourceV1.WithKind("ResourceSliceList"), &resourceSliceList{})
	metav1.AddToGroupVersion(s, v1alpha1.GroupVersion)
	metav1.AddToGroupVersion(s, appsV1)
	metav1.AddToGroupVersion(s, coreV1)
	metav1.AddToGroupVersion(s, discoveryV1)
	metav1.AddToGroupVersion(s, resourceV1)
	metav1.AddToGroupVersion(s, networkV1)
	return s
}

// stripObject removes unread fields from an object, before it is kept.
func stripObject(v any) (any, error) {
	switch o := v.(type) {
	case *pod:
		o.object = leanObject(o.object)
		o.trimAnnotations()
	case *network:
		o.object = leanObject(o.object)
	case *clusterNode:
		labels := o.Labels
		o.object = leanObject(o.object)
		o.Labels = labels
	case *configMap:
		o.object = leanObject(o.object)
	case *resourceSlice:
		owner := o.OwnerReferences
		o.object = leanObject(o.object)
		o.OwnerReferences = owner
	case *daemonSetMeta:
		deleted := o.DeletionTimestamp
		o.object = leanObject(o.object)
		o.DeletionTimestamp = deleted
	}
	return v, nil
}

// trimAnnotations drops the annotations of a pod that has large ones: Client.Pod reads them again.
func (p *pod) trimAnnotations() {
	size := 0
	for _, value := range p.Annotations {
		size += len(value)
	}
	if size <= maxAnnotations {
		return
	}
	p.partial = true
	value, ok := p.Annotations[static]
	p.Annotations = nil
	if ok && len(value) <= maxAnnotations {
		p.Annotations = map[string]string{static: value}
	}
}

func leanObject(o object) object {
	return object{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Annotations: readAnnotations(o.Annotations),
	}}
}

// read are the annotations that culvertd reads, of pods and of networks.
var read = []string{netannotation.Networks, netannotation.DefaultNetwork, netannotation.Status, netannotation.Confirmed, netannotation.ResourceName, netannotation.Namespaces, netannotation.KeepAddress, static}

// readAnnotations returns the annotations that Culvert reads. It cuts an annotation that is
// longer than netconf.MaxText, but leaves it longer than that, so that its parser refuses it.
func readAnnotations(all map[string]string) map[string]string {
	var out map[string]string
	for _, key := range read {
		value, ok := all[key]
		if !ok {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		if len(value) > netconf.MaxText {
			value = strings.Clone(value[:netconf.MaxText+1])
		}
		out[key] = value
	}
	return out
}
