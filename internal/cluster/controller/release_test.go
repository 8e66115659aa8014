package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/culvert-net/culvert/internal/network/service"
	"github.com/culvert-net/culvert/internal/reasons"
)

// ReleaseServices removes every trace of Culvert from Services, also from a refused Service, and
// the EndpointSlices of a deleted one. A Service that cannot be written does not hide the others,
// and the next attempt writes it. Services without Culvert stay as they are.
func TestReleaseServices(t *testing.T) {
	named := func(name string, change func(*corev1.Service)) *corev1.Service {
		return webService(func(s *corev1.Service) { s.Name = name; change(s) })
	}
	refused := named("refused", func(s *corev1.Service) {
		s.Status.Conditions = []metav1.Condition{{Type: service.ConditionEndpoints, Status: metav1.ConditionFalse, Reason: reasons.NotServed}}
	})
	theirs := named("theirs", func(s *corev1.Service) { s.Annotations = nil })
	keyed := func(s *corev1.Service) { s.Spec.Selector[service.SelectorKey] = "default.net1" }
	ownSlice := func(of string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: of + "-1", Labels: map[string]string{
			discoveryv1.LabelManagedBy: service.ManagedBy, discoveryv1.LabelServiceName: of,
		}}}
	}
	foreign := ownSlice("theirs")
	foreign.Labels[discoveryv1.LabelManagedBy] = "example.com"
	w := newServing(t, nil, append(twoBackends(), webService(), named("stuck", keyed), refused, theirs, foreign, ownSlice("gone"))...)
	w.reconcile()
	if len(w.addresses()) != 2 || w.service().Spec.Selector[service.SelectorKey] == "" {
		t.Fatal("the Service is not served")
	}
	before := &corev1.Service{}
	if err := w.c.Get(t.Context(), client.ObjectKeyFromObject(theirs), before); err != nil {
		t.Fatal(err)
	}

	refuses := errors.New("a webhook refuses")
	busy := interceptor.NewClient(w.c.(client.WithWatch), interceptor.Funcs{ //nolint:forcetypeassert // the fake is one
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if o.GetName() == "stuck" {
				return refuses
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	if found, err := releaseServices(t.Context(), busy); found != 4 || !errors.Is(err, refuses) || !strings.Contains(err.Error(), "default/stuck") {
		t.Errorf("%d Services, %v", found, err)
	}
	if left := w.slices(); len(left) != 1 || left[0].Name != "theirs-1" {
		t.Errorf("left are the slices %v", left)
	}
	for want := range slices.Values([]int{1, 0}) {
		if found, err := releaseServices(t.Context(), w.c); found != want || err != nil {
			t.Errorf("%d Services, want %d: %v", found, want, err)
		}
	}
	var all corev1.ServiceList
	if err := w.c.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, s := range all.Items {
		if s.Spec.Selector[service.SelectorKey] != "" || s.Spec.Selector["app"] != "web" || len(s.Status.Conditions) > 0 {
			t.Errorf("Service %s: selector %v, conditions %v", s.Name, s.Spec.Selector, s.Status.Conditions)
		}
		if s.Name == "theirs" && s.ResourceVersion != before.ResourceVersion {
			t.Error("a Service of others was written")
		}
	}
}

// An attempt that fails is made again until the time is over; the error is then the last one.
func TestReleaseServicesGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	attempts, fails := 0, errors.New("no API server")
	err := untilDone(ctx, func() error {
		if attempts++; attempts == 2 {
			cancel()
		}
		return fails
	})
	if attempts != 2 || !errors.Is(err, fails) || !errors.Is(err, context.Canceled) {
		t.Errorf("%d attempts, %v", attempts, err)
	}
}
