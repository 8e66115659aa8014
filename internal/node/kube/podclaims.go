package kube

// podClaim is an entry of spec.resourceClaims of a pod, or of status.resourceClaimStatuses: the claim's
// name in the pod, and the name of the ResourceClaim. In the spec, the latter is empty for a claim that is
// made of a template.
type podClaim struct {
	Name              string `json:"name"`
	ResourceClaimName string `json:"resourceClaimName"`
}

// podStatus is the part of a pod's status that is read: the names of the ResourceClaims that the cluster
// made for it.
type podStatus struct {
	ResourceClaimStatuses       []podClaim `json:"resourceClaimStatuses,omitempty"`
	ExtendedResourceClaimStatus struct {
		ResourceClaimName string `json:"resourceClaimName"`
	} `json:"extendedResourceClaimStatus,omitzero"`
}

// claimNames returns the names of the pod's ResourceClaims: those of its spec in their order, then the
// claim for its extended resources.
func (p *pod) claimNames() (out []string) {
	made := map[string]string{}
	for _, c := range p.Status.ResourceClaimStatuses {
		made[c.Name] = c.ResourceClaimName
	}
	for _, c := range p.Spec.claims {
		name := c.ResourceClaimName
		if name == "" {
			name = made[c.Name]
		}
		if name != "" {
			out = append(out, name)
		}
	}
	if name := p.Status.ExtendedResourceClaimStatus.ResourceClaimName; name != "" {
		out = append(out, name)
	}
	return out
}
