package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/cluster/endpoints"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/service"
	"github.com/culvert-net/culvert/internal/reasons"
)

const (
	// missingGrace is how long a ready pod's address may wait for its node's NodeState before
	// the Service says that it is missing.
	missingGrace = 30 * time.Second
	// mostMissing is how many pods an event names.
	mostMissing = 4
	// mostFull is how many nodes without room an event names.
	mostFull = 4
)

// told remembers the last text of each reason that was reported about a Service, so that each
// text is reported once.
type told struct {
	mu   sync.Mutex // guards last
	last map[types.NamespacedName]map[string]string
}

// isNews records the text of a reason, and reports whether it differs from the last one. The
// empty text means that the problem is over.
func (t *told) isNews(name types.NamespacedName, reason, text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = map[types.NamespacedName]map[string]string{}
	}
	before := t.last[name][reason]
	if text == "" {
		if delete(t.last[name], reason); len(t.last[name]) == 0 {
			delete(t.last, name)
		}
		return false
	}
	if t.last[name] == nil {
		t.last[name] = map[string]string{}
	}
	t.last[name][reason] = text
	return before != text
}

// forget drops a Service that is gone.
func (t *told) forget(name types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, name)
}

// warn reports an event of a Service when its text is new.
func (s *Services) warn(svc *corev1.Service, reason, text string) {
	if s.told.isNews(client.ObjectKeyFromObject(svc), reason, text) {
		s.Events.Event(svc, corev1.EventTypeWarning, reason, text)
	}
}

// reportUnserved says why an annotated Service is not served, or takes the condition away.
func (s *Services) reportUnserved(ctx context.Context, svc *corev1.Service, d endpoints.Decision) error {
	for _, reason := range []string{reasons.EndpointsMissing, reasons.NetworkMissing, reasons.VFIOPod, reasons.NoRoom} {
		s.warn(svc, reason, "")
	}
	s.warn(svc, reasons.NotServed, d.Refusal)
	if d.Refusal == "" {
		return s.setCondition(ctx, svc, nil)
	}
	return s.setCondition(ctx, svc, &metav1.Condition{Status: metav1.ConditionFalse, Reason: reasons.NotServed, Message: d.Refusal})
}

// reportServed writes the condition and the events of a served Service, and returns when to
// reconcile it again. Only events name pods: a status that named them would change with each pod,
// and each change goes to every kube-proxy.
func (s *Services) reportServed(ctx context.Context, svc *corev1.Service, d endpoints.Decision, b endpoints.Backends) (time.Duration, error) {
	missing, again := listMissing(b.Missing, s.Now())
	again = min(again, networkLook)
	lost := s.findNetwork(ctx, svc.Namespace, *d.Network)
	s.warn(svc, reasons.NotServed, "")
	s.warn(svc, reasons.EndpointsMissing, missing)
	s.warn(svc, reasons.NetworkMissing, lost)
	s.warn(svc, reasons.VFIOPod, describeVFIO(svc, b.VFIO))
	full, unread := s.nodesWithoutRoom(ctx, svc)
	if unread == nil {
		s.warn(svc, reasons.NoRoom, describeNoRoom(svc, full))
	}
	c := &metav1.Condition{Status: metav1.ConditionTrue, Reason: reasons.Served, Message: describeServed(d)}
	switch {
	case lost != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasons.NetworkMissing, lost
	case missing != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasons.EndpointsMissing, fmt.Sprintf("ready pods have no address on network %s: see the events of the Service", d.Network)
	}
	return again, errors.Join(unread, s.setCondition(ctx, svc, c))
}

// nodesWithoutRoom returns the nodes that have no room to balance connections to a Service, sorted.
func (s *Services) nodesWithoutRoom(ctx context.Context, svc *corev1.Service) ([]string, error) {
	var states v1alpha1.NodeStateList
	name := client.ObjectKeyFromObject(svc).String()
	if err := s.Client.List(ctx, &states, client.MatchingFields{byNoRoom: name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the nodes without room for Service %s: %w", name, err)
	}
	var nodes []string
	for i := range states.Items {
		nodes = append(nodes, states.Items[i].Name)
	}
	slices.Sort(nodes)
	return nodes, nil
}

// describeNoRoom says which nodes do not balance connections to a Service. It gives no count of
// them, since each change of the text is an event.
func describeNoRoom(svc *corev1.Service, nodes []string) string {
	if len(nodes) == 0 {
		return ""
	}
	who := strings.Join(nodes[:min(len(nodes), mostFull)], ", ")
	if len(nodes) > mostFull {
		who += " and others"
	}
	return fmt.Sprintf("connections from pods on %s are refused, or go to the fallback: Services of namespace %s use more than its share of a node's rules and backends; give them fewer ports or fewer endpoints",
		who, svc.Namespace)
}

func describeServed(d endpoints.Decision) string {
	if d.Fallback {
		return fmt.Sprintf("clients on network %s reach the pods' addresses there, other clients their default addresses", d.Network)
	}
	return fmt.Sprintf("served with the pods' addresses on network %s; the key %s of the selector keeps their default addresses away", d.Network, service.SelectorKey)
}

// listMissing describes the pods without an address. It leaves out pods whose address may still
// arrive, and returns when to reconcile for them.
func listMissing(all []endpoints.Missing, now time.Time) (text string, again time.Duration) {
	again = networkLook
	var lines []string
	for _, m := range all {
		if left := missingGrace - now.Sub(m.Since); m.Awaited && left > 0 {
			again = min(again, left)
			continue
		}
		lines = append(lines, fmt.Sprintf("pod %s: %s", m.Pod, m.Reason))
	}
	if len(lines) == 0 {
		return "", again
	}
	return "no endpoint for " + listFirst(lines, "; "), again
}

// listFirst lists the first of several texts, and how many more there are.
func listFirst(all []string, separator string) string {
	shown := all[:min(len(all), mostMissing)]
	if more := len(all) - len(shown); more > 0 {
		return strings.Join(shown, separator) + separator + excerpt.More(more)
	}
	return strings.Join(shown, separator)
}

// describeVFIO describes the limits of pods with vfio behind a Service.
func describeVFIO(svc *corev1.Service, pods []string) string {
	if len(pods) == 0 || endpoints.IsHeadless(svc) {
		return ""
	}
	return fmt.Sprintf("bound to vfio-pci is the VF of pod %s: the kernel is not in its path, so the pod itself cannot connect to a cluster IP on its network; a headless Service works", listFirst(pods, ", "))
}

// findNetwork returns a problem if there is no such network for pods of a namespace, or "". Pods
// keep a network that is deleted or closed to them, so their endpoints stay.
func (s *Services) findNetwork(ctx context.Context, namespace string, n service.Network) string {
	o := metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(networkKind)
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: n.Namespace, Name: n.Name}, &o)
	if err != nil && !isMissing(err) {
		return ""
	}
	refused := s.Isolation.Check(namespace, n.Namespace, n.Name, o.Annotations)
	switch {
	case refused != nil: // in the same words, whether the network exists or not (I9)
		return fmt.Sprintf("network %s: %v, or correct the annotation %s; pods that have the network stay endpoints, new pods cannot start", n, refused, service.NetworkAnnotation)
	case err != nil:
		return fmt.Sprintf("there is no NetworkAttachmentDefinition %s: pods that have the network stay endpoints, new pods cannot start; make it, or correct the annotation %s", n, service.NetworkAnnotation)
	}
	return ""
}

// isMissing reports whether an object does not exist, or the API server does not know its kind.
func isMissing(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// setCondition writes the Service's condition if it has changed; for nil it removes the
// condition.
func (s *Services) setCondition(ctx context.Context, svc *corev1.Service, c *metav1.Condition) error {
	after := svc.DeepCopy()
	if c == nil {
		meta.RemoveStatusCondition(&after.Status.Conditions, service.ConditionEndpoints)
	} else {
		c.Type, c.ObservedGeneration, c.LastTransitionTime = service.ConditionEndpoints, svc.Generation, metav1.NewTime(s.Now())
		c.Message = excerpt.Fit(c.Message, maxConditionMessage)
		meta.SetStatusCondition(&after.Status.Conditions, *c)
	}
	if equality.Semantic.DeepEqual(svc.Status, after.Status) {
		return nil
	}
	err := s.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(svc, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of Service %s/%s: %w", svc.Namespace, svc.Name, err)
	}
	return nil
}

// maxConditionMessage bounds a condition's message, in bytes. The API server accepts 32 KiB.
const maxConditionMessage = 1024
