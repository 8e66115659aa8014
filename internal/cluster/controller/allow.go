package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/vf"
)

// compareWithPools compares a network with the pools of its resource in the NodePolicies. wrong
// has the settings that all these pools refuse. maybe has the settings that some refuse, and the
// pools that refuse pods of the network's own namespace. Only nodes know host.yaml and the
// addresses in use, so they compare these.
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
			if err := errors.Join(p.CheckSettings(want), checkGuard(p, want.Guard)); err != nil {
				wrong = append(wrong, excerpt.Error(err))
			}
			if p.Allow != nil && len(p.Allow.NamespaceSelector) > 0 {
				continue // only the node knows the labels of the namespace
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

// checkGuard refuses a guard at VFs that programs drive by themselves, as the node does.
func checkGuard(p desired.Pool, mode vf.GuardMode) error {
	if mode == "" || p.DeviceType != desired.VFIO || p.AsBound {
		return nil
	}
	return fmt.Errorf("guard %s: the programs that get VFs of pool %s (%s) send past the kernel: take guard out and set spoofchk, which the NIC applies, or use a pool of network interfaces", mode, p.FullName(), vf.DriverVFIO)
}
