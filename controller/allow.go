package controller

import (
	"context"
	"fmt"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/desired"
	"github.com/culvert-net/culvert/excerpt"
	"github.com/culvert-net/culvert/vf"
)

// compareWithPools compares a network with what the pools of its resource allow in the
// NodePolicies: wrong is a setting that every one of them refuses, maybe is one that
// some refuse, and pools that refuse pods of the network's own namespace. host.yaml and
// addresses, which only a node knows, are the node's to compare.
func (n *networks) compareWithPools(ctx context.Context, namespace, resource string, want vf.Spec) (wrong, maybe []string, err error) {
	var policies v1alpha1.NodePolicyList
	if err := n.client.List(ctx, &policies); err != nil {
		return nil, nil, fmt.Errorf("list the NodePolicies: %w", err)
	}
	count := 0
	for _, policy := range policies.Items {
		spec, err := desired.FromPolicy(policy.Name, policy.Spec)
		if err != nil {
			continue // its status says why; no node follows it
		}
		for _, p := range spec.Pools {
			if p.FullName() != resource && p.Name != resource {
				continue
			}
			count++
			if err := p.CheckSettings(want); err != nil {
				wrong = append(wrong, excerpt.Error(err))
			}
			if p.Allow != nil && len(p.Allow.NamespaceSelector) > 0 {
				continue // the node asks for the labels
			}
			if err := p.CheckTenant(desired.Tenant{Namespace: namespace}); err != nil {
				maybe = append(maybe, "pods of this namespace are refused: "+excerpt.Error(err))
			}
		}
	}
	if len(wrong) < count {
		return nil, append(wrong, maybe...), nil
	}
	return wrong, maybe, nil
}
