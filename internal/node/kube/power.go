package kube

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// podSpec is what culvertd keeps of a pod's spec: the power of its most powerful container, and its
// ResourceClaims.
type podSpec struct {
	power  vf.Power
	claims []podClaim
}

// container is the part of a container that is read.
type container struct {
	SecurityContext struct {
		Privileged   bool `json:"privileged"`
		Capabilities struct {
			Add  []string `json:"add"`
			Drop []string `json:"drop"`
		} `json:"capabilities"`
	} `json:"securityContext"`
}

// UnmarshalJSON reads the spec of a pod.
func (p *podSpec) UnmarshalJSON(raw []byte) error {
	var spec struct {
		InitContainers      []container `json:"initContainers"`
		Containers          []container `json:"containers"`
		EphemeralContainers []container `json:"ephemeralContainers"`
		ResourceClaims      []podClaim  `json:"resourceClaims"`
	}
	if err := json.Unmarshal(raw, &spec); err != nil {
		return fmt.Errorf("spec of a pod: %w", err)
	}
	all := slices.Concat(spec.InitContainers, spec.Containers, spec.EphemeralContainers)
	*p = podSpec{claims: spec.ResourceClaims}
	for i, c := range all {
		if one := c.power(); i == 0 || one == vf.PowerAdmin || one == vf.PowerRaw && p.power == vf.PowerNone {
			p.power = one
		}
	}
	return nil
}

// power returns the power of a container. NET_RAW is among the capabilities that container
// runtimes grant by default, so only a container that drops it is without.
func (c container) power() vf.Power {
	has := func(names []string, capability string) bool {
		return slices.ContainsFunc(names, func(n string) bool {
			n = strings.TrimPrefix(strings.ToUpper(n), "CAP_")
			return n == capability || n == "ALL"
		})
	}
	s := c.SecurityContext
	switch {
	case s.Privileged, has(s.Capabilities.Add, "NET_ADMIN"), has(s.Capabilities.Add, "SYS_ADMIN"):
		return vf.PowerAdmin
	case has(s.Capabilities.Add, "NET_RAW"), !has(s.Capabilities.Drop, "NET_RAW"):
		return vf.PowerRaw
	}
	return vf.PowerNone
}
