package kube

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/exactjson"
)

// nodePolicy is a NodePolicy. The API server keeps fields that are in its CustomResourceDefinition,
// which may be newer than this culvertd: it is applied before a node is upgraded, and stays after a
// node went back.
type nodePolicy struct {
	v1alpha1.NodePolicy
	unknown error // names a field of the spec that v1alpha1.NodePolicySpec does not have
}

type nodePolicyList list[nodePolicy]

// UnmarshalJSON reads a policy. A field that is not known is no error of the list, which has the
// other policies too.
func (p *nodePolicy) UnmarshalJSON(raw []byte) error {
	*p = nodePolicy{}
	if err := json.Unmarshal(raw, &p.NodePolicy); err != nil {
		return fmt.Errorf("NodePolicy: %w", err)
	}
	var unknown exactjson.Unknown
	if errors.As(exactjson.DecodeSpec(raw, &v1alpha1.NodePolicySpec{}), &unknown) {
		p.unknown = fmt.Errorf("%w: upgrade culvertd on this node, or remove the field", unknown)
	}
	return nil
}

// DeepCopyObject is for runtime.Object.
func (p *nodePolicy) DeepCopyObject() runtime.Object {
	return &nodePolicy{*p.DeepCopy(), p.unknown}
}

// DeepCopyObject is for runtime.Object.
func (l *nodePolicyList) DeepCopyObject() runtime.Object {
	out := &nodePolicyList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for _, p := range l.Items {
		out.Items = append(out.Items, nodePolicy{*p.DeepCopy(), p.unknown})
	}
	return out
}
