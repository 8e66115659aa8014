package controller

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// claimedDevices are the devices that one request of a pod's ResourceClaim asks for.
type claimedDevices struct {
	class     *resourcev1.DeviceClass
	selectors []resourcev1.DeviceSelector
	count     int64
}

// isOf reports whether the devices are of a resource: the class has it as its extended resource, or a
// selector of the class or the request names it, as those of Culvert's pools do.
func (d claimedDevices) isOf(resource string) bool {
	selectors := d.selectors
	if d.class != nil {
		if name := d.class.Spec.ExtendedResourceName; name != nil && *name == resource {
			return true
		}
		selectors = append(selectors, d.class.Spec.Selectors...)
	}
	for _, s := range selectors {
		if s.CEL != nil && (strings.Contains(s.CEL.Expression, `"`+resource+`"`) || strings.Contains(s.CEL.Expression, "'"+resource+"'")) {
			return true
		}
	}
	return false
}

// subtractClaimed takes from the needed resources the devices that the pod's own ResourceClaims provide: the
// pod would get them twice. Of a claim that cannot be read, it takes nothing and warns.
func (p *pods) subtractClaimed(ctx context.Context, pod *corev1.Pod, namespace string, out *needs) {
	if len(out.resources) == 0 {
		return
	}
	for _, c := range pod.Spec.ResourceClaims {
		spec, err := p.readClaim(ctx, namespace, c)
		if err != nil {
			out.warn("claim %s: %v; the pod requests the resources of its networks, which the claim may provide too", c.Name, err)
			continue
		}
		for _, r := range spec.Devices.Requests {
			d := p.devicesOf(ctx, r)
			for i := range out.resources {
				if need := &out.resources[i]; d.isOf(need.resource) {
					need.n -= min(need.n, d.count)
					break
				}
			}
		}
	}
}

// readClaim reads the spec of a claim of a pod, or of its template.
func (p *pods) readClaim(ctx context.Context, namespace string, c corev1.PodResourceClaim) (resourcev1.ResourceClaimSpec, error) {
	switch {
	case c.ResourceClaimName != nil:
		var o resourcev1.ResourceClaim
		err := getWithin(ctx, lookBound, p.live, client.ObjectKey{Namespace: namespace, Name: *c.ResourceClaimName}, &o)
		return o.Spec, err
	case c.ResourceClaimTemplateName != nil:
		var o resourcev1.ResourceClaimTemplate
		err := getWithin(ctx, lookBound, p.live, client.ObjectKey{Namespace: namespace, Name: *c.ResourceClaimTemplateName}, &o)
		return o.Spec.Spec, err
	}
	return resourcev1.ResourceClaimSpec{}, fmt.Errorf("it names neither a ResourceClaim nor a ResourceClaimTemplate")
}

// devicesOf returns the devices of a request; of its first alternative if it has several. A class that
// cannot be read counts as one without selectors.
func (p *pods) devicesOf(ctx context.Context, r resourcev1.DeviceRequest) claimedDevices {
	var (
		d     claimedDevices
		class string
	)
	switch {
	case r.Exactly != nil:
		class, d = r.Exactly.DeviceClassName, claimedDevices{selectors: r.Exactly.Selectors, count: r.Exactly.Count}
	case len(r.FirstAvailable) > 0:
		first := r.FirstAvailable[0]
		class, d = first.DeviceClassName, claimedDevices{selectors: first.Selectors, count: first.Count}
	}
	d.count = max(d.count, 1) // the API server's default comes later
	var o resourcev1.DeviceClass
	if err := getWithin(ctx, lookBound, p.live, client.ObjectKey{Name: class}, &o); err == nil {
		d.class = &o
	}
	return d
}
