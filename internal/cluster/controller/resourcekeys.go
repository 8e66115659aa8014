package controller

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/vf"
)

// DefaultResourceKeys returns the annotations of networks that name resources where the
// administrator names no others.
func DefaultResourceKeys() []string { return []string{netannotation.ResourceName} }

// mostResourceKeys bounds the keys, each of which may add a resource to a pod for each network.
const mostResourceKeys = 16

// ParseResourceKeys checks the annotations of networks that name resources. The error wraps
// vf.ErrInvalid.
func ParseResourceKeys(keys []string) (out []string, err error) {
	for _, key := range keys {
		key = strings.TrimSpace(key)
		if wrong := validation.IsQualifiedName(strings.ToLower(key)); len(wrong) > 0 {
			return nil, fmt.Errorf("%s: %w: it is no key of an annotation: want a key such as %s", excerpt.Quote(key), vf.ErrInvalid, netannotation.ResourceName)
		}
		if !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	if len(out) == 0 || len(out) > mostResourceKeys {
		return nil, fmt.Errorf("%w: there are %d keys of annotations; want between 1 and %d", vf.ErrInvalid, len(out), mostResourceKeys)
	}
	return out, nil
}

// resourceName matches a name that an extended resource may have (k8s.io/apimachinery
// validation.IsQualifiedName with a prefix).
var resourceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// neededResource is a number of devices of a resource.
type neededResource struct {
	resource string
	n        int64
}

// addResources adds the resources that a network's annotations name. A resource that two keys of
// the network name counts once.
func (p *pods) addResources(ctx context.Context, n *metav1.PartialObjectMetadata, out *needs) {
	keys := p.resourceKeys
	if len(keys) == 0 {
		keys = DefaultResourceKeys()
	}
	var seen []string
	for _, key := range keys {
		name := strings.TrimSpace(n.Annotations[key])
		switch {
		case name == "" || slices.Contains(seen, name):
			continue
		case !resourceName.MatchString(name):
			out.warn("network %s/%s: annotation %s: %.80q is no name of a resource: want prefix/name", n.Namespace, n.Name, key, name)
			continue
		}
		seen = append(seen, name)
		devices, err := p.countDevices(ctx, n, key)
		if err != nil {
			out.warn("network %s/%s: %v; the pod requests %d of resource %s for it", n.Namespace, n.Name, err, devices, name)
		}
		out.addResource(name, devices)
	}
}

// countDevices returns how many devices a network needs of the resource under a key: as many as it
// has VFs under the key by which nodes find the VFs, else 1. If it cannot find out how many, it
// returns 1 and the error.
func (p *pods) countDevices(ctx context.Context, n *metav1.PartialObjectMetadata, key string) (int, error) {
	if key != netannotation.ResourceName {
		return 1, nil
	}
	devices, err := p.links.of(ctx, p.live, n)
	if err != nil {
		return 1, err
	}
	return devices, nil
}

func (n *needs) addResource(name string, devices int) {
	for i := range n.resources {
		if n.resources[i].resource == name {
			n.resources[i].n += int64(devices)
			return
		}
	}
	n.resources = append(n.resources, neededResource{name, int64(devices)})
}
