package controller

import (
	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/internal/network/netannotation"
)

// neededLabel is a label that the node of a pod has to have for a network.
type neededLabel struct{ network, key, value string }

// warnNodeSelector returns a warning if the annotation nodeSelector of a network is no label.
func warnNodeSelector(annotations map[string]string) []string {
	if _, _, err := netannotation.ParseNodeSelector(annotations); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// addLabel adds the label that a network's annotation nodeSelector names. If an earlier network
// names another value, that value stays, since no node has both.
func (n *needs) addLabel(network *metav1.PartialObjectMetadata) {
	name := network.Namespace + "/" + network.Name
	key, value, err := netannotation.ParseNodeSelector(network.Annotations)
	if err != nil {
		n.warn("network %s: %v", name, err)
	}
	if key == "" {
		return
	}
	for _, l := range n.labels {
		if l.key == key {
			if l.value != value {
				n.warn("network %s is on nodes with the label %s=%s, and network %s on nodes with %s=%s, which the pod gets", name, key, value, l.network, key, l.value)
			}
			return
		}
	}
	n.labels = append(n.labels, neededLabel{name, key, value})
}

// selectNodes returns the JSON patch that adds the needed labels to the pod's nodeSelector. A value
// that the pod has stays: the administrator may have set it to keep the pod off other nodes.
func (n *needs) selectNodes(pod *corev1.Pod) (patch []jsonpatch.Operation) {
	const path = "/spec/nodeSelector"
	added := map[string]string{}
	for _, l := range n.labels {
		have, is := pod.Spec.NodeSelector[l.key]
		switch {
		case is && have != l.value:
			n.warn("network %s is on nodes with the label %s=%s, and the pod's nodeSelector says %s=%s, which stays", l.network, l.key, l.value, l.key, have)
		case !is:
			added[l.key] = l.value
			patch = append(patch, jsonpatch.NewOperation("add", path+"/"+pointer(l.key), l.value))
		}
	}
	if len(added) > 0 && len(pod.Spec.NodeSelector) == 0 {
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", path, added)}
	}
	return patch
}
