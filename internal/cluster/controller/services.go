package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/endpointslice"
	endpointsliceutil "k8s.io/endpointslice/util"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/cluster/endpoints"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/network/service"
)

const (
	// endpointsPerSlice is how many endpoints Kubernetes' own controller puts into one
	// EndpointSlice.
	endpointsPerSlice = 100
	// staleWait is how long Reconcile waits for the cache of EndpointSlices to have this
	// controller's last write.
	staleWait = 20 * time.Millisecond
	// staleLimit is how long Reconcile waits before it asks the API server. The cache never has a
	// slice that was deleted before the cache saw it.
	staleLimit = 10 * time.Second
	// networkLook is how often the controller checks that the network of a served Service exists.
	networkLook = time.Minute
)

// Services serves Services over VF networks (docs/design/0021-services.md): it makes the
// EndpointSlices, and keeps Kubernetes' own controllers from adding the pods' default
// addresses.
type Services struct {
	Client client.Client // from a cache; of EndpointSlices it has Culvert's only
	Live   client.Reader // asks the API server
	Rules  endpoints.Rules
	// Isolation says which networks of other namespaces a Service's pods may use.
	Isolation netannotation.Isolation
	Events    record.EventRecorder
	Now       func() time.Time

	tracker *endpointsliceutil.EndpointSliceTracker
	slices  *endpointslice.Reconciler
	told    told
	stale   staleSince
}

// staleSince has, for each Service whose EndpointSlices the cache lacks, the time of the first
// Reconcile that found so.
type staleSince struct {
	mu    sync.Mutex // guards since
	since map[types.NamespacedName]time.Time
}

// isOver records a stale Service, and reports whether it has been stale for staleLimit.
func (s *staleSince) isOver(name types.NamespacedName, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, noted := s.since[name]
	if !noted {
		if s.since == nil {
			s.since = map[types.NamespacedName]time.Time{}
		}
		s.since[name] = now
	}
	return noted && now.Sub(first) >= staleLimit
}

func (s *staleSince) forgetService(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.since, name)
}

// newServices returns a controller that writes through c.
func newServices(c client.Client, live client.Reader, rules endpoints.Rules, events record.EventRecorder, now func() time.Time) *Services {
	s := &Services{Client: c, Live: live, Rules: rules, Events: events, Now: now, tracker: endpointsliceutil.NewEndpointSliceTracker()}
	s.slices = endpointslice.NewReconciler(sliceWriter{c: c}, nodeLister{c: c}, endpointsPerSlice, s.tracker, nil, events, service.ManagedBy,
		endpointslice.WithTrafficDistributionEnabled(true, true))
	return s
}

// Reconcile serves one Service, or leaves it to Kubernetes.
func (s *Services) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	svc := &corev1.Service{}
	err := s.Client.Get(ctx, req.NamespacedName, svc)
	if apierrors.IsNotFound(err) { // the garbage collector deletes its EndpointSlices
		s.slices.DeleteService(req.Namespace, req.Name)
		s.tracker.DeleteService(req.Namespace, req.Name)
		s.told.forget(req.NamespacedName)
		s.stale.forgetService(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read Service %s: %w", req, err)
	}
	if svc.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	pods, err := podsOf(ctx, s.Client, svc)
	if err != nil {
		return ctrl.Result{}, err
	}
	existing, known, err := s.knownSlices(ctx, svc)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !known {
		return ctrl.Result{RequeueAfter: staleWait}, nil
	}
	d := s.Rules.Decide(svc, pods)
	if d.Network == nil {
		return ctrl.Result{}, s.release(ctx, svc, existing, d)
	}
	return s.serve(ctx, svc, pods, existing, d)
}

// release leaves a Service to Kubernetes: it undoes all that serve does.
func (s *Services) release(ctx context.Context, svc *corev1.Service, existing []*discoveryv1.EndpointSlice, d endpoints.Decision) error {
	err := errors.Join(s.withdraw(ctx, existing), s.setKey(ctx, svc, d))
	return errors.Join(err, s.reportUnserved(ctx, svc, d))
}

// serve brings a Service's selector, EndpointSlices and status up to date.
func (s *Services) serve(ctx context.Context, svc *corev1.Service, pods []*corev1.Pod, existing []*discoveryv1.EndpointSlice, d endpoints.Decision) (ctrl.Result, error) {
	if err := s.setKey(ctx, svc, d); err != nil {
		return ctrl.Result{}, err
	}
	states, err := s.statesOf(ctx, pods)
	if err != nil {
		return ctrl.Result{}, err
	}
	b := endpoints.Build(svc, pods, *d.Network, func(node string) *v1alpha1.NodeState { return states[node] })
	if err := s.slices.Reconcile(klog.FromContext(ctx), b.Service, b.Pods, existing, time.Time{}); err != nil {
		return ctrl.Result{}, fmt.Errorf("EndpointSlices of Service %s/%s: %w", svc.Namespace, svc.Name, err)
	}
	again, err := s.reportServed(ctx, svc, d, b)
	return ctrl.Result{RequeueAfter: again}, err
}

// podsOf returns the pods that a Service selects without Culvert's key. They belong to the cache:
// do not change them.
func podsOf(ctx context.Context, c client.Reader, svc *corev1.Service) ([]*corev1.Pod, error) {
	selector := endpoints.Selector(svc)
	if len(selector) == 0 {
		return nil, nil
	}
	var all corev1.PodList
	err := c.List(ctx, &all, client.InNamespace(svc.Namespace), client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(selector)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list the pods of Service %s/%s: %w", svc.Namespace, svc.Name, err)
	}
	out := make([]*corev1.Pod, 0, len(all.Items))
	for i := range all.Items {
		out = append(out, &all.Items[i])
	}
	return out, nil
}

// knownSlices returns Culvert's EndpointSlices of a Service. They are not known while the cache
// lacks this controller's last write. After staleLimit, knownSlices reads them from the API server.
func (s *Services) knownSlices(ctx context.Context, svc *corev1.Service) (existing []*discoveryv1.EndpointSlice, known bool, err error) {
	name := client.ObjectKeyFromObject(svc)
	if existing, err = slicesOf(ctx, s.Client, svc); err != nil {
		return nil, false, err
	}
	if !s.tracker.StaleSlices(svc, existing) {
		s.stale.forgetService(name)
		return existing, true, nil
	}
	if !s.stale.isOver(name, s.Now()) {
		return nil, false, nil
	}
	if existing, err = slicesOf(ctx, s.Live, svc); err != nil {
		return nil, false, err
	}
	s.stale.forgetService(name)
	s.tracker.DeleteService(svc.Namespace, svc.Name)
	for _, e := range existing {
		s.tracker.Update(e) // the cache may only be late
	}
	return existing, true, nil
}

// slicesOf returns Culvert's EndpointSlices of a Service.
func slicesOf(ctx context.Context, from client.Reader, svc *corev1.Service) ([]*discoveryv1.EndpointSlice, error) {
	var all discoveryv1.EndpointSliceList
	err := from.List(ctx, &all, client.InNamespace(svc.Namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: svc.Name, discoveryv1.LabelManagedBy: service.ManagedBy})
	if err != nil {
		return nil, fmt.Errorf("list the EndpointSlices of Service %s/%s: %w", svc.Namespace, svc.Name, err)
	}
	var out []*discoveryv1.EndpointSlice
	for i := range all.Items {
		if all.Items[i].DeletionTimestamp == nil {
			out = append(out, &all.Items[i])
		}
	}
	return out, nil
}

// statesOf returns the NodeStates of the pods' nodes, as far as they exist. They belong to the
// cache: do not change them.
func (s *Services) statesOf(ctx context.Context, pods []*corev1.Pod) (map[string]*v1alpha1.NodeState, error) {
	out := map[string]*v1alpha1.NodeState{}
	for _, p := range pods {
		node := p.Spec.NodeName
		if _, read := out[node]; read || node == "" {
			continue
		}
		state := &v1alpha1.NodeState{}
		err := s.Client.Get(ctx, client.ObjectKey{Name: node}, state, client.UnsafeDisableDeepCopy)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read NodeState %s: %w", node, err)
		}
		if out[node] = state; err != nil {
			out[node] = nil
		}
	}
	return out, nil
}

// withdraw deletes the EndpointSlices of a Service that is not served.
func (s *Services) withdraw(ctx context.Context, existing []*discoveryv1.EndpointSlice) error {
	var errs []error
	for _, e := range existing {
		err := s.Client.Delete(ctx, e)
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("delete EndpointSlice %s/%s: %w", e.Namespace, e.Name, err))
			continue
		}
		s.tracker.ExpectDeletion(e)
	}
	return errors.Join(errs...)
}

// setKey adds Culvert's key to a Service's selector, or takes it away. Afterwards svc has the
// version of the API server.
func (s *Services) setKey(ctx context.Context, svc *corev1.Service, d endpoints.Decision) error {
	have, is := svc.Spec.Selector[service.SelectorKey]
	want, wanted := d.WantedKey()
	if is == wanted && have == want {
		return nil
	}
	key := map[string]any{service.SelectorKey: nil}
	if wanted {
		key[service.SelectorKey] = want
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": svc.ResourceVersion}, // fails if the Service has changed meanwhile
		"spec":     map[string]any{"selector": key},
	})
	if err != nil {
		return fmt.Errorf("patch of Service %s/%s: %w", svc.Namespace, svc.Name, err)
	}
	if err := s.Client.Patch(ctx, svc, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("change the selector of Service %s/%s: %w", svc.Namespace, svc.Name, err)
	}
	return nil
}
