package kube

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
)

// namespace is the part of a core/v1 Namespace that is read: its labels.
type namespace struct {
	object `json:",inline"`
}

// DeepCopyObject is for runtime.Object.
func (n *namespace) DeepCopyObject() runtime.Object { return &namespace{n.copyMeta()} }

// NamespaceLabels asks the API server for the labels of a namespace. culvertd watches no
// namespaces: few pools select them by label. Errors are vf.ErrNotFound and vf.ErrNotReady.
func (c *Client) NamespaceLabels(ctx context.Context, name string) (map[string]string, error) {
	var n namespace
	if err := c.getObject(ctx, c.core, "namespaces", "", name, &n); err != nil {
		return nil, fmt.Errorf("namespace %s: %w", name, err)
	}
	return n.Labels, nil
}
