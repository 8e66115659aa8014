package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/cluster/endpoints"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/network/service"
	"github.com/culvert-net/culvert/internal/vf"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// setUp makes the manager call Reconcile for each Service whose endpoints may have changed.
func (s *Services) setUp(mgr ctrl.Manager) error {
	// The indexes are there before the cache starts, so no call waits.
	index := mgr.GetFieldIndexer()
	err := errors.Join(index.IndexField(context.Background(), &corev1.Service{}, bySelector, indexSelector),
		index.IndexField(context.Background(), &v1alpha1.NodeState{}, byNoRoom, indexNoRoom))
	if err != nil {
		return fmt.Errorf("services: %w", err)
	}
	nodes := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request { return s.everyServed(ctx) })
	err = newController(mgr, "services", 4).
		For(&corev1.Service{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			return s.servicesOf(ctx, o)
		}), builder.WithPredicates(podChanged())).
		Watches(&v1alpha1.NodeState{}, s.onNodeState()).
		Watches(&discoveryv1.EndpointSlice{}, s.onSlice()).
		WatchesMetadata(node(), nodes, builder.WithPredicates(zoneChanged())).
		Complete(s)
	if err != nil {
		return fmt.Errorf("services: %w", err)
	}
	return nil
}

// cacheForServices makes the manager's cache keep only what Services need. It keeps little more
// than the labels of pods that ask for no network.
func cacheForServices() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&discoveryv1.EndpointSlice{}: {Label: labels.SelectorFromSet(labels.Set{discoveryv1.LabelManagedBy: service.ManagedBy}), Transform: cache.TransformStripManagedFields()},
		&corev1.Service{}:            {Transform: cache.TransformStripManagedFields()},
		&corev1.Pod{}:                {Transform: stripPod},
	}
}

// stripPod removes the parts of a pod that no reader needs, before the pod enters the cache.
func stripPod(o any) (any, error) {
	pod, is := o.(*corev1.Pod)
	if !is {
		if d, gone := o.(toolscache.DeletedFinalStateUnknown); gone {
			stripped, err := stripPod(d.Obj)
			d.Obj = stripped
			return d, err
		}
		return o, nil
	}
	out := &corev1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion, Labels: pod.Labels, DeletionTimestamp: pod.DeletionTimestamp,
	}}
	out.Spec.NodeName, out.Status.Phase = pod.Spec.NodeName, pod.Status.Phase
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			out.Status.Conditions = []corev1.PodCondition{{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}}
		}
	}
	networks, asks := pod.Annotations[netannotation.Networks]
	if !asks {
		return out, nil
	}
	out.Annotations = map[string]string{netannotation.Networks: networks}
	for _, key := range []string{netannotation.Status, netannotation.Confirmed} {
		if text, is := pod.Annotations[key]; is {
			out.Annotations[key] = text
		}
	}
	out.Spec.Hostname, out.Spec.Subdomain, out.Spec.RestartPolicy = pod.Spec.Hostname, pod.Spec.Subdomain, pod.Spec.RestartPolicy
	out.Spec.Containers, out.Spec.InitContainers = stripContainers(pod.Spec.Containers), stripContainers(pod.Spec.InitContainers)
	return out, nil
}

// podChanged lets updates of pods through that change a part which stripPod keeps.
func podChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(*corev1.Pod)
		after, ok2 := e.ObjectNew.(*corev1.Pod)
		if !ok1 || !ok2 {
			return true
		}
		old := *before
		old.ResourceVersion = after.ResourceVersion
		return !reflect.DeepEqual(&old, after)
	}}
}

// stripContainers keeps only the ports of containers, in which a named target port is looked up.
func stripContainers(all []corev1.Container) []corev1.Container {
	var out []corev1.Container
	for _, c := range all {
		if len(c.Ports) > 0 {
			out = append(out, corev1.Container{Name: c.Name, Ports: c.Ports, RestartPolicy: c.RestartPolicy})
		}
	}
	return out
}

// bySelector is the index of Services by one pair of their selectors. With it servicesOf makes a
// lookup for each label of a pod, and not for each Service of its namespace.
const bySelector = "spec.selector"

// indexSelector returns the pair of a Service's selector that the index has: the first.
func indexSelector(o client.Object) []string {
	svc, is := o.(*corev1.Service)
	if !is {
		return nil
	}
	selector := endpoints.Selector(svc)
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		return []string{key + "=" + selector[key]}
	}
	return nil
}

// byNoRoom is the index of NodeStates by the Services for which their nodes have no room.
const byNoRoom = "status.servicesWithoutRoom"

func indexNoRoom(o client.Object) []string {
	if state, is := o.(*v1alpha1.NodeState); is {
		return state.Status.ServicesWithoutRoom
	}
	return nil
}

// servicesOf returns the Services that select a pod.
func (s *Services) servicesOf(ctx context.Context, pod client.Object) []reconcile.Request {
	var out []reconcile.Request
	for key, value := range pod.GetLabels() {
		var some corev1.ServiceList
		err := s.Client.List(ctx, &some, client.InNamespace(pod.GetNamespace()), client.MatchingFields{bySelector: key + "=" + value}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil // the cache is not filled yet; when it is, each Service causes a Reconcile
		}
		for i := range some.Items {
			if endpoints.Selects(&some.Items[i], pod.GetLabels()) {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&some.Items[i])})
			}
		}
	}
	return out
}

// everyServed returns the Services that have EndpointSlices of Culvert's.
func (s *Services) everyServed(ctx context.Context) []reconcile.Request {
	var all discoveryv1.EndpointSliceList
	if err := s.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil // as in servicesOf
	}
	var out []reconcile.Request
	for i := range all.Items {
		out = append(out, serviceOfSlice(&all.Items[i]))
	}
	return out
}

func serviceOfSlice(e client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: e.GetNamespace(), Name: e.GetLabels()[discoveryv1.LabelServiceName]}}
}

// onSlice wakes the Service of an EndpointSlice that changed outside of this controller.
func (s *Services) onSlice() handler.EventHandler {
	changed := func(o client.Object, q queue) {
		if e, is := o.(*discoveryv1.EndpointSlice); is && s.tracker.ShouldSync(e) {
			q.Add(serviceOfSlice(e))
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { changed(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { changed(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			if slice, is := e.Object.(*discoveryv1.EndpointSlice); is && s.tracker.Has(slice) && !s.tracker.HandleDeletion(slice) {
				q.Add(serviceOfSlice(slice))
			}
		},
	}
}

// onNodeState wakes the Services of the pods whose VFs changed, and those for which a node has no
// room any more or has room again.
func (s *Services) onNodeState() handler.EventHandler {
	wake := func(ctx context.Context, before, after client.Object, q queue) {
		for _, name := range changedPods(before, after) {
			pod := &corev1.Pod{}
			if s.Client.Get(ctx, name, pod, client.UnsafeDisableDeepCopy) != nil {
				continue // the pod is not in the cache yet; its arrival wakes its Services
			}
			for _, r := range s.servicesOf(ctx, pod) {
				q.Add(r)
			}
		}
		for _, name := range changedRoom(before, after) {
			q.Add(reconcile.Request{NamespacedName: name})
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { wake(ctx, nil, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { wake(ctx, e.ObjectOld, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { wake(ctx, e.Object, nil, q) },
	}
}

// changedPods returns the pods whose VFs differ in two NodeStates.
func changedPods(before, after client.Object) []client.ObjectKey {
	old, now := vfsOfPods(before), vfsOfPods(after)
	var out []client.ObjectKey
	add := func(name string) {
		if namespace, pod, found := strings.Cut(name, "/"); found {
			out = append(out, client.ObjectKey{Namespace: namespace, Name: pod})
		}
	}
	for name, vfs := range now {
		if !reflect.DeepEqual(vfs, old[name]) {
			add(name)
		}
	}
	for name := range old {
		if _, still := now[name]; !still {
			add(name)
		}
	}
	return out
}

// changedRoom returns the Services that only one of two NodeStates lists as without room.
func changedRoom(before, after client.Object) (out []client.ObjectKey) {
	old, now := indexNoRoom(before), indexNoRoom(after)
	for _, name := range slices.Concat(old, now) {
		namespace, service, found := strings.Cut(name, "/")
		if found && slices.Contains(old, name) != slices.Contains(now, name) {
			out = append(out, client.ObjectKey{Namespace: namespace, Name: service})
		}
	}
	return out
}

func vfsOfPods(o client.Object) map[string][]v1alpha1.VFState {
	state, is := o.(*v1alpha1.NodeState)
	if !is {
		return nil
	}
	out := map[string][]v1alpha1.VFState{}
	for _, v := range state.Status.VFs {
		if v.Owner != nil && v.Owner.Kind == vf.OwnerPod {
			out[v.Owner.Name] = append(out[v.Owner.Name], v)
		}
	}
	return out
}

// zoneChanged lets updates of nodes through that change their zone, since endpoints name it. Pods
// of a new node cause events of their own.
func zoneChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetLabels()[corev1.LabelTopologyZone] != e.ObjectNew.GetLabels()[corev1.LabelTopologyZone]
		},
	}
}
