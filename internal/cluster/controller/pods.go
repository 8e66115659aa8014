package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/culvert-net/culvert/internal/network/netannotation"
)

// networkKind is the kind NetworkAttachmentDefinition.
var networkKind = schema.GroupVersionKind{Group: "k8s.cni.cncf.io", Version: "v1", Kind: "NetworkAttachmentDefinition"}

// Bounds on the webhook's waits: for all that it reads for a pod; for a network in the cache, which
// may be filling; for a network that the cache lacks. The API server waits longer for the webhook
// (timeoutSeconds).
const (
	podBound   = 8 * time.Second
	cacheBound = time.Second
	lookBound  = 3 * time.Second
)

// pods adds to pods what their networks need: the resources, the node labels, and the files below
// podInfoPath. It never refuses a pod. If it cannot add a resource, it warns, and the node refuses
// the pod.
type pods struct {
	client client.Reader // from a cache
	live   client.Reader // for a network that the cache lacks
	log    *slog.Logger
	links  links
	// isolation says which networks of other namespaces pods may use.
	isolation netannotation.Isolation
	// everyPod has the networks that pods get without asking for them.
	everyPod netannotation.EveryPod
	// resourceKeys are the annotations of networks that name resources; nil stands for
	// defaultResourceKeys.
	resourceKeys []string
}

// Handle is admission.Handler.
func (p *pods) Handle(ctx context.Context, req admission.Request) admission.Response {
	var pod corev1.Pod
	if err := json.Unmarshal(req.Object.Raw, &pod); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the pod: %w", err))
	}
	ctx, cancel := context.WithTimeout(ctx, podBound)
	defer cancel()
	n := p.readNeeds(ctx, &pod, req.Namespace)
	patch := grow(&pod, n.resources)
	if len(patch) > 0 && !hasResources(req.Object.Raw) {
		patch = slices.Insert(patch, 0, jsonpatch.NewOperation("add", strings.TrimSuffix(firstResources, "/"), map[string]any{}))
	}
	patch = append(patch, n.selectNodes(&pod)...)
	if len(n.resources) > 0 {
		patch = append(patch, n.mountPodInfo(&pod)...)
	}
	if len(patch) == 0 {
		return admission.Allowed("").WithWarnings(n.warnings...)
	}
	return admission.Patched("what the pod's networks need", patch...).WithWarnings(n.warnings...)
}

// needs has what the networks of a pod need in its spec, in the order in which its annotations name
// the networks, and warnings for the pod's author.
type needs struct {
	resources []neededResource
	labels    []neededLabel
	warnings  []string
}

func (n *needs) warn(format string, args ...any) {
	n.warnings = append(n.warnings, fmt.Sprintf(format, args...))
}

// readNeeds reads what the networks need that a pod of a namespace asks for, and those that every pod
// gets. A pod of the host's network gets only the devices that it asks for.
func (p *pods) readNeeds(ctx context.Context, pod *corev1.Pod, namespace string) (out needs) {
	annotations, everyPod := pod.Annotations, p.everyPod
	if pod.Spec.HostNetwork {
		everyPod = netannotation.EveryPod{}
	}
	defaults, defaultErr := netannotation.ParseDefault(annotations[netannotation.DefaultNetwork])
	others, err := everyPod.Parse(annotations[netannotation.Networks], namespace)
	for _, source := range []struct {
		elements []netannotation.Element
		err      error
	}{{defaults, defaultErr}, {others, err}} {
		if source.err != nil {
			out.warn("%v: no pod starts with it", source.err)
			continue
		}
		for _, e := range source.elements {
			out.warnings = append(out.warnings, e.Ignored...)
			n, err := p.findNetwork(ctx, namespace, e)
			if err != nil {
				out.warn("network %s/%s: %v; the pod starts when it may use that network and requests its resource", e.Namespace, e.Name, err)
				continue
			}
			p.addResources(ctx, n, &out)
			out.addLabel(n)
		}
	}
	p.subtractClaimed(ctx, pod, namespace, &out)
	return out
}

// findNetwork reads the metadata of a network for a pod of a namespace, from the cache or else from
// the API server.
func (p *pods) findNetwork(ctx context.Context, namespace string, e netannotation.Element) (*metav1.PartialObjectMetadata, error) {
	n, err := p.readNetwork(ctx, cacheBound, p.client, namespace, e)
	if err != nil {
		n, err = p.readNetwork(ctx, lookBound, p.live, namespace, e)
	}
	if err != nil {
		return nil, err
	}
	n.Namespace, n.Name = e.Namespace, e.Name
	return n, nil
}

// readNetwork reads the metadata of a network for a pod of a namespace. A network that the pod may
// not use gets the same error as one that does not exist, so that the pod's author does not learn
// which of the two it is (I9). Both are then read from the API server too.
func (p *pods) readNetwork(ctx context.Context, bound time.Duration, c client.Reader, namespace string, e netannotation.Element) (*metav1.PartialObjectMetadata, error) {
	n := &metav1.PartialObjectMetadata{}
	n.SetGroupVersionKind(networkKind)
	err := getWithin(ctx, bound, c, client.ObjectKey{Namespace: e.Namespace, Name: e.Name}, n)
	if (err == nil || isMissing(err)) && !e.ForEveryPod {
		err = cmp.Or(p.isolation.Check(namespace, e.Namespace, e.Name, n.Annotations), err)
	}
	return n, err
}

// getWithin reads an object within a bound.
func getWithin(ctx context.Context, bound time.Duration, c client.Reader, key client.ObjectKey, into client.Object) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return c.Get(ctx, key, into)
}

// grow returns the JSON patch that makes the pod request the needed resources. Requests of any
// container count already; grow adds the missing ones to the first container.
func grow(pod *corev1.Pod, need []neededResource) []jsonpatch.Operation {
	if len(pod.Spec.Containers) == 0 {
		return nil
	}
	have := pod.Spec.Containers[0].Resources
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for _, n := range need {
		name := corev1.ResourceName(n.resource)
		long, most := countAsked(pod, name)
		if most >= n.n {
			continue
		}
		missing := n.n - long
		// An extended resource cannot be overcommitted: requests and limits are equal
		// (k8s.io/kubernetes validation, ValidateContainerResourceRequirements).
		sum := *resource.NewQuantity(missing+inContainer(have, name), resource.DecimalSI)
		requests[name], limits[name] = sum, sum
	}
	return append(patch("requests", have.Requests, requests), patch("limits", have.Limits, limits)...)
}

// hasResources reports whether the first container has the key resources, so that the patch can
// add to it.
func hasResources(raw []byte) bool {
	var pod struct {
		Spec struct {
			Containers []struct {
				Resources json.RawMessage `json:"resources"`
			} `json:"containers"`
		} `json:"spec"`
	}
	return json.Unmarshal(raw, &pod) == nil && len(pod.Spec.Containers) > 0 && len(pod.Spec.Containers[0].Resources) > 0 &&
		pod.Spec.Containers[0].Resources[0] == '{'
}

const firstResources = "/spec/containers/0/resources/"

func patch(field string, have, want corev1.ResourceList) []jsonpatch.Operation {
	if len(want) == 0 {
		return nil
	}
	if len(have) == 0 {
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", firstResources+field, want)}
	}
	var out []jsonpatch.Operation
	for _, name := range sortedNames(want) {
		q := want[name]
		out = append(out, jsonpatch.NewOperation("add", firstResources+field+"/"+pointer(string(name)), q.String()))
	}
	return out
}

// pointer escapes a key for a JSON pointer (RFC 6901).
func pointer(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

// countAsked returns how many devices of a resource the kubelet would give to the pod's containers. long
// counts those of containers that run as long as the pod does. most is the largest number at any
// time. The kubelet gives the devices of an init container to later containers again. A sidecar, which
// is an init container with restartPolicy Always, keeps its own.
func countAsked(pod *corev1.Pod, name corev1.ResourceName) (long, most int64) {
	for _, c := range pod.Spec.InitContainers {
		n := inContainer(c.Resources, name)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			long += n
			n = 0
		}
		most = max(most, long+n)
	}
	for _, c := range pod.Spec.Containers {
		long += inContainer(c.Resources, name)
	}
	return long, max(most, long)
}

func inContainer(r corev1.ResourceRequirements, name corev1.ResourceName) int64 {
	limit, request := r.Limits[name], r.Requests[name]
	return max(limit.Value(), request.Value())
}

func sortedNames(l corev1.ResourceList) []corev1.ResourceName { return slices.Sorted(maps.Keys(l)) }
