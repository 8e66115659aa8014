//go:build lab

package controller

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/internal/network/service"
	"github.com/culvert-net/culvert/test/apiserver"
)

// sliceLabels has labels and annotations of an EndpointSlice by which Culvert, kube-proxy or Kubernetes'
// controllers decide whose it is, with a tenant's values.
func sliceLabels() map[string]string {
	return map[string]string{
		discoveryv1.LabelServiceName: "victim", discoveryv1.LabelManagedBy: service.ManagedBy, service.NetworkLabel: "default.net1", corev1.IsHeadlessService: "no",
		"app": "kept",
	}
}

// I9: Kubernetes' endpoint controllers copy the labels of a Service and of Endpoints into EndpointSlices,
// and Culvert's controller those of a Service. The labels that say whose a slice is are never the
// tenant's. So a tenant gets no slice that culvertd reads, nor one of another Service.
func TestI9LabelsOfServicesDecideNothing(t *testing.T) {
	w := newServicesCluster(t)
	v := w.addPod("a", "n1", "10.244.1.5", "172.16.91.20")
	for _, o := range worker("n1", "z1", v) {
		createObject(t, w.admin, o)
	}
	create := func(name string, change func(*corev1.Service)) {
		t.Helper()
		createObject(t, w.admin, webService(func(s *corev1.Service) {
			s.Name, s.UID, s.Labels = name, "", sliceLabels()
			s.Annotations = map[string]string{service.NetworkAnnotation: "", "example.com/theirs": "x"}
			change(s)
		}))
	}
	create("plain", func(*corev1.Service) {})
	create("served", func(s *corev1.Service) { s.Annotations[service.NetworkAnnotation] = "net1" })
	create("mirrored", func(s *corev1.Service) { s.Spec.Selector = nil })
	createObject(t, w.admin, &corev1.Endpoints{ //nolint:staticcheck // Kubernetes still mirrors them
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mirrored", Labels: sliceLabels(), Annotations: sliceLabels()},
		Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}}, Ports: []corev1.EndpointPort{{Name: "http", Port: 80}}}}, //nolint:staticcheck // likewise
	})
	serveController(t, Config{Kube: asController(w.server.Config()), Metrics: "0"})
	apiserver.Eventually(t, "an EndpointSlice of each Service", func() error {
		return errors.Join(w.sliceIs("plain", "endpointslice-controller.k8s.io", ""), w.sliceIs("served", service.ManagedBy, "default.net1"),
			w.sliceIs("mirrored", "endpointslicemirroring-controller.k8s.io", ""))
	})
	var all discoveryv1.EndpointSliceList
	if err := w.admin.List(t.Context(), &all, client.MatchingLabels{discoveryv1.LabelManagedBy: service.ManagedBy}); err != nil || len(all.Items) != 1 {
		t.Errorf("I9: culvertd reads %d EndpointSlices: %v", len(all.Items), err)
	}
	for key := range maps.Keys(all.Items[0].Annotations) {
		if slices.Contains([]string{"example.com/theirs", service.NetworkAnnotation}, key) {
			t.Errorf("the slice has the annotation %s of the Service", key)
		}
	}
}

// sliceIs returns an error until a Service has one EndpointSlice of a manager, whose labels have Culvert's
// network, if it is of one, and the tenant's label that decides nothing.
func (w *services) sliceIs(name, manager, network string) error {
	var all discoveryv1.EndpointSliceList
	if err := w.admin.List(w.t.Context(), &all, client.InNamespace("default"), client.MatchingLabels{discoveryv1.LabelServiceName: name, discoveryv1.LabelManagedBy: manager}); err != nil {
		return err
	}
	if len(all.Items) != 1 {
		return fmt.Errorf("Service %s has %d EndpointSlices of %s", name, len(all.Items), manager)
	}
	s := all.Items[0]
	owner := s.OwnerReferences[0].Name
	if l := s.Labels; network != "" && l[service.NetworkLabel] != network || l["app"] != "kept" || owner != name {
		return fmt.Errorf("the EndpointSlice of %s is of %s, with the labels %v", name, owner, l)
	}
	return nil
}
