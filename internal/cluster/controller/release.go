package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	endpointsliceutil "k8s.io/endpointslice/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/internal/cluster/endpoints"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/service"
)

// Release says how ReleaseServices reaches the cluster, and which Deployment it stops.
type Release struct {
	Kube *rest.Config
	// Namespace has the Deployment of the controllers.
	Namespace, Deployment string
	Log                   *slog.Logger
}

// releasePause is the time between two attempts of untilDone.
const releasePause = time.Second

// ReleaseServices gives all Services back to Kubernetes before Culvert is uninstalled. First it
// scales the Deployment of the controllers to 0, since they would undo its work. It repeats failed
// steps until no Service has anything of Culvert's, or ctx ends; the error then says what is left.
// It may be called again.
func ReleaseServices(ctx context.Context, r Release) error {
	c, err := client.New(withRate(r.Kube), client.Options{Scheme: Scheme()})
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	if err := untilDone(ctx, func() error { return r.stopControllers(ctx, c) }); err != nil {
		return err
	}
	count := 0
	err = untilDone(ctx, func() error {
		released, err := releaseServices(ctx, c)
		if count += released; err == nil && released > 0 {
			return errLookAgain
		}
		return err
	})
	r.Log.Info("gave Services back to Kubernetes", "count", count)
	return err
}

// errLookAgain says that this attempt changed Services, so another attempt has to find nothing
// left.
var errLookAgain = errors.New("services were given back a moment ago")

// untilDone calls do until it returns nil or ctx ends, and then returns its last error.
func untilDone(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil {
			return nil
		}
		wait := time.NewTimer(releasePause)
		select {
		case <-ctx.Done():
			wait.Stop()
			return errors.Join(ctx.Err(), err)
		case <-wait.C:
		}
	}
}

// stopControllers scales the controllers' Deployment to 0, and returns an error as long as a pod of
// it is there.
func (r Release) stopControllers(ctx context.Context, c client.Client) error {
	d := &appsv1.Deployment{}
	err := c.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Deployment}, d)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read Deployment %s/%s: %w", r.Namespace, r.Deployment, err)
	}
	if d.Spec.Replicas == nil || *d.Spec.Replicas != 0 {
		none := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))
		if err := c.SubResource("scale").Patch(ctx, d, none, client.WithSubResourceBody(&autoscalingv1.Scale{})); err != nil {
			return fmt.Errorf("scale Deployment %s/%s to 0: %w", r.Namespace, r.Deployment, err)
		}
		r.Log.Info("stopped the controllers", "deployment", r.Namespace+"/"+r.Deployment)
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return fmt.Errorf("selector of Deployment %s/%s: %w", r.Namespace, r.Deployment, err)
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(r.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return fmt.Errorf("list the pods of Deployment %s/%s: %w", r.Namespace, r.Deployment, err)
	}
	var running []string
	for _, p := range pods.Items {
		if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			running = append(running, fmt.Sprintf("%s on node %s", p.Name, p.Spec.NodeName))
		}
	}
	if len(running) > 0 {
		return fmt.Errorf("a controller runs still (pod %s): it ends within seconds where its node is up; where the node is down for good, delete the pod with --force", listFirst(running, ", "))
	}
	return nil
}

// releaseServices tries once to remove everything of Culvert's from Services. It returns how many
// Services, and EndpointSlices without a Service, it found.
func releaseServices(ctx context.Context, c client.Client) (found int, err error) {
	var services corev1.ServiceList
	var all discoveryv1.EndpointSliceList
	if err := errors.Join(c.List(ctx, &services), c.List(ctx, &all, client.MatchingLabels{discoveryv1.LabelManagedBy: service.ManagedBy})); err != nil {
		return 0, fmt.Errorf("list Services and EndpointSlices: %w", err)
	}
	existing := map[types.NamespacedName][]*discoveryv1.EndpointSlice{}
	for i := range all.Items {
		of := serviceOfSlice(&all.Items[i]).NamespacedName
		existing[of] = append(existing[of], &all.Items[i])
	}
	s := &Services{Client: c, Now: time.Now, tracker: endpointsliceutil.NewEndpointSliceTracker()}
	var errs []error
	note := func(err error) {
		if found++; err != nil {
			errs = append(errs, err)
		}
	}
	for i := range services.Items {
		svc := &services.Items[i]
		name := client.ObjectKeyFromObject(svc)
		_, keyed := svc.Spec.Selector[service.SelectorKey]
		if keyed || existing[name] != nil || meta.FindStatusCondition(svc.Status.Conditions, service.ConditionEndpoints) != nil {
			note(s.release(ctx, svc, existing[name], endpoints.Decision{}))
			delete(existing, name)
		}
	}
	for _, orphans := range existing { // of Services that are gone
		note(s.withdraw(ctx, orphans))
	}
	if more := len(errs) - mostMissing; more > 0 {
		errs = append(errs[:mostMissing], errors.New(excerpt.More(more)))
	}
	return found, errors.Join(errs...)
}
