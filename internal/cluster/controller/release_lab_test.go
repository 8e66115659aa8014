//go:build lab

package controller

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/internal/cluster/endpoints"
	"github.com/culvert-net/culvert/internal/network/service"
	"github.com/culvert-net/culvert/test/apiserver"
)

// I10: ReleaseServices, which helm uninstall runs first, needs only the rights that the chart's
// hook brings. The controllers stop, and then Services have the pods' default addresses again, for
// DNS too. ReleaseServices waits for the last controller, which would undo its work. The second
// time nothing is left to do.
func TestI10UninstallGivesServicesBack(t *testing.T) {
	w := newServicesCluster(t)
	state := w.addPod("a", "n1", "10.244.1.5", "172.16.91.20")
	for _, o := range worker("n1", "z1", state) {
		createObject(t, w.admin, o)
	}
	hooks := 0
	for _, o := range decodeObjects(t, []byte(templateChart(t, withServer(t, w.server)...))) {
		if o.GetAnnotations()["helm.sh/hook"] != "pre-delete" {
			continue
		}
		if hooks++; o.GetKind() != "Job" {
			createObject(t, w.admin, o)
		}
	}
	if hooks != 3 {
		t.Fatalf("the chart has %d objects of the hook, want 3", hooks)
	}
	two, labels := int32(2), map[string]string{"app.kubernetes.io/name": "culvert-controller"}
	deployment := installed[appsv1.Deployment](t, "Deployment", "culvert-controller")
	deployment.Spec.Replicas = &two
	createObject(t, w.admin, deployment)
	pod := runningPod(ownNamespace, "culvert-controller-1", "n1")
	pod.Labels = labels
	createObject(t, w.admin, pod)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running errgroup.Group
	running.Go(func() error {
		return Run(ctx, Config{Kube: asController(w.server.Config()), Namespace: ownNamespace, Metrics: "0", Health: "0", Log: slog.New(slog.DiscardHandler),
			Services: endpoints.Rules{Defaults: []service.Network{{Namespace: "default", Name: "net1"}}}})
	})
	createObject(t, w.admin, webService(func(s *corev1.Service) { s.UID, s.Annotations = "", nil }))
	apiserver.Eventually(t, "VF addresses", func() error { return w.endpointsAre("web", "172.16.91.20") })

	r := Release{Kube: asController(w.server.Config()), Namespace: ownNamespace, Deployment: "culvert-controller", Log: slog.New(slog.DiscardHandler)}
	var release errgroup.Group
	release.Go(func() error { return ReleaseServices(t.Context(), r) })
	apiserver.Eventually(t, "the controllers are to stop", func() error {
		d := &appsv1.Deployment{}
		if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(deployment), d); err != nil || *d.Spec.Replicas != 0 {
			return fmt.Errorf("%d replicas: %w", *d.Spec.Replicas, err)
		}
		return nil
	})
	if err := w.endpointsAre("web", "172.16.91.20"); err != nil {
		t.Errorf("while a controller runs: %v", err)
	}
	stop() // as the kubelet does
	requireEnd(t, running.Wait())
	if err := w.admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	if err := release.Wait(); err != nil {
		t.Fatal(err)
	}
	apiserver.Eventually(t, "the overlay's addresses", func() error { return w.endpointsAre("web", "10.244.1.5") })
	apiserver.Eventually(t, "DNS", func() error { return w.answers("web", "10.244.1.5") })
	svc := &corev1.Service{}
	if err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, svc); err != nil || len(svc.Spec.Selector) != 1 || len(svc.Status.Conditions) > 0 {
		t.Errorf("selector %v, conditions %v: %v", svc.Spec.Selector, svc.Status.Conditions, err)
	}
	if err := ReleaseServices(t.Context(), r); err != nil {
		t.Errorf("the second time: %v", err)
	}
}

// A chart that is rendered without a cluster has no Job that stops the controllers: helm template
// and Argo CD apply all that the chart has.
func TestChartReleasesServicesOnlyWhereAsked(t *testing.T) {
	for _, test := range []struct {
		args []string
		want []string
	}{
		{nil, nil},
		{[]string{"--set", "controller.releaseServices=false"}, nil},
		{[]string{"--set", "controller.releaseServices=true"}, []string{"Role", "RoleBinding", "Job"}},
	} {
		var kinds []string
		for _, o := range decodeObjects(t, []byte(templateChart(t, test.args...))) {
			if o.GetName() == "culvert-release-services" {
				kinds = append(kinds, o.GetKind())
			}
		}
		if slices.Sort(kinds); !slices.Equal(kinds, slices.Sorted(slices.Values(test.want))) {
			t.Errorf("%v: there are %v, want %v", test.args, kinds, test.want)
		}
	}
}
