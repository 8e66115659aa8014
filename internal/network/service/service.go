// Package service has the names that both halves of Services over VF networks use
// (docs/design/0021-services.md): the names of labels and annotations, and the network that they
// name. The controller makes EndpointSlices (internal/cluster/endpoints); culvertd balances inside the
// client pod.
package service

import (
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/vf"
)

// Annotations of a Service, which its owner writes.
const (
	// NetworkAnnotation names the NetworkAttachmentDefinition that the Service is served
	// over. The empty value keeps default networks away.
	NetworkAnnotation = "culvert.dev/network"
	// FallbackAnnotation lets clients without the network reach the pods' default addresses.
	// Its only value is FallbackDefault.
	FallbackAnnotation = "culvert.dev/fallback"
	FallbackDefault    = "default-network"
)

const (
	// ManagedBy is the value of endpointslice.kubernetes.io/managed-by on Culvert's
	// EndpointSlices.
	ManagedBy = "culvert.dev"
	// NetworkLabel has Network.Label on Culvert's EndpointSlices.
	NetworkLabel = "culvert.dev/network"
	// SelectorKey is the key that Culvert adds to a Service's selector, with the value
	// Network.Label: Kubernetes' own endpoint controllers then find no pod.
	SelectorKey = "endpoints.culvert.dev/network"
	// ConditionEndpoints is the type of the condition in a Service's status.
	ConditionEndpoints = "culvert.dev/Endpoints"
)

// maxLabel is the length of a label's value (k8s.io/apimachinery, validation.LabelValueMaxLength).
const maxLabel = 63

// Network names a NetworkAttachmentDefinition.
type Network struct{ Namespace, Name string }

// String returns namespace/name.
func (n Network) String() string { return n.Namespace + "/" + n.Name }

// Label returns namespace.name, the form of labels and selectors.
func (n Network) Label() string { return n.Namespace + "." + n.Name }

// ParseNetwork parses name or namespace/name. A bare name is of the given namespace. Errors
// match vf.ErrInvalid.
func ParseNetwork(text, namespace string) (Network, error) {
	n := Network{Namespace: namespace, Name: text}
	if before, after, found := strings.Cut(text, "/"); found {
		n = Network{Namespace: before, Name: after}
	}
	if err := (netannotation.Element{Namespace: n.Namespace, Name: n.Name}).CheckNames(); err != nil {
		return Network{}, fmt.Errorf("network %s: %w: %w", excerpt.Quote(text), vf.ErrInvalid, err)
	}
	if len(n.Label()) > maxLabel {
		return Network{}, fmt.Errorf("network %s: %w: namespace and name have %d characters: a Service can be served over a network with at most %d",
			excerpt.Quote(n.String()), vf.ErrInvalid, len(n.Label())-1, maxLabel-1)
	}
	return n, nil
}

// ParseLabel parses the form that Label returns.
func ParseLabel(text string) (Network, error) {
	namespace, name, found := strings.Cut(text, ".")
	if !found {
		return Network{}, fmt.Errorf("network %s: %w: want namespace.name", excerpt.Quote(text), vf.ErrInvalid)
	}
	return ParseNetwork(namespace+"/"+name, "")
}
