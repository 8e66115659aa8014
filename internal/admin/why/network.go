package why

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/suggest"
)

// Elements returns the networks that a pod's annotations ask for, as namespace/name.
func Elements(p Pod) ([]netannotation.Element, error) {
	defaults, err := netannotation.ParseDefault(p.Metadata.Annotations[netannotation.DefaultNetwork])
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", netannotation.DefaultNetwork, err)
	}
	others, err := netannotation.Parse(p.Metadata.Annotations[netannotation.Networks], p.Metadata.Namespace)
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", netannotation.Networks, err)
	}
	return slices.Concat(defaults, others), nil
}

// networkCauses is about networks that the pod may not have, and about resources that it should
// request for them.
func (f Facts) networkCauses() (out []api.Cause) {
	elements, err := Elements(f.Pod)
	if err != nil {
		return []api.Cause{{Source: "pod", Text: err.Error(), Next: "correct the annotation in the pod's template"}}
	}
	requested := map[string]int{}
	for _, r := range f.Pod.resources() {
		requested[r.name] = r.count
	}
	wanted := map[string]int{}
	for _, e := range elements {
		name := e.Namespace + "/" + e.Name
		if f.Unread[name] {
			continue
		}
		annotations, exists := f.Networks[name]
		if err := f.Isolation.Check(f.Pod.Metadata.Namespace, e.Namespace, e.Name, annotations); err != nil {
			out = append(out, api.Cause{Source: "network " + name, Text: err.Error()})
			continue
		}
		if !exists {
			out = append(out, api.Cause{
				Source: "API server", Text: "there is no NetworkAttachmentDefinition " + name + suggest.DidYouMean(name, slices.Sorted(maps.Keys(f.Networks))),
				Next: "create it, or correct the pod's annotation: kubectl -n " + e.Namespace + " get network-attachment-definitions",
			})
			continue
		}
		if r := annotations[netannotation.ResourceName]; r != "" {
			wanted[r]++
		}
	}
	for _, r := range slices.Sorted(maps.Keys(wanted)) {
		if requested[r] < wanted[r] {
			out = append(out, api.Cause{
				Source: "pod", Text: fmt.Sprintf("its networks need %d of %s, and it requests %d: the webhook of culvert-controller did not see the pod", wanted[r], r, requested[r]),
				Next: "delete the pod, so that its controller creates it again; does culvert-controller run? kubectl -n culvert-system get pods",
			})
		}
	}
	return out
}

// addressCauses is about the addresses of the pod's networks.
func (f Facts) addressCauses() (out []api.Cause) {
	elements, _ := Elements(f.Pod) // networkCauses reports the error
	for _, p := range f.Cluster.Problems {
		if slices.ContainsFunc(elements, func(e netannotation.Element) bool {
			return strings.TrimPrefix(p.Object, "network ") == e.Namespace+"/"+e.Name
		}) {
			out = append(out, causeOf("AddressPool", p))
		}
	}
	return out
}
