//go:build lab

package controller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/cluster/endpoints"
	"github.com/culvert-net/culvert/internal/network/service"
	"github.com/culvert-net/culvert/test/apiserver"
)

// services is a real API server with the shipped manifest, Kubernetes' own endpoint
// controllers and CoreDNS.
type services struct {
	t      *testing.T
	server *apiserver.Server
	admin  client.Client
	dns    net.Resolver
}

func newServicesCluster(t *testing.T) *services {
	t.Helper()
	s := apiserver.New(t)
	s.CRDs()
	text, err := os.ReadFile("../../../dist/kubernetes/network-attachment-definitions.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.Must(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", string(text))
	w := &services{t: t, server: s, admin: connect(t, s.Config())}
	install(t, w.admin, "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
	s.RunControllers("endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller", "garbage-collector-controller")
	address := s.RunDNS()
	w.dns = net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	apiserver.Eventually(t, "NetworkAttachmentDefinitions", func() error {
		return client.IgnoreAlreadyExists(w.admin.Create(t.Context(), definitionOf("default", "net1", "")))
	})
	return w
}

// addPod makes a pod as backend does, whose default address Kubernetes' controllers know.
func (w *services) addPod(name, node, overlay, address string) v1alpha1.VFState {
	w.t.Helper()
	p, v := backend(name, node, address)
	p.UID, p.Spec.Containers[0].Image = "", "i"
	status := p.Status
	createObject(w.t, w.admin, p)
	status.PodIP, status.PodIPs, status.Phase = overlay, []corev1.PodIP{{IP: overlay}}, corev1.PodRunning
	status.Conditions[0].LastTransitionTime = metav1.Now()
	p.Status = status
	if err := w.admin.Status().Update(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
	return v
}

// endpointsAre reports an error until the EndpointSlices and Endpoints of a Service have these
// addresses and no others.
func (w *services) endpointsAre(name string, want ...string) error {
	var all discoveryv1.EndpointSliceList
	var old corev1.Endpoints //nolint:staticcheck // Kubernetes still makes them
	err := w.admin.List(w.t.Context(), &all, client.InNamespace("default"), client.MatchingLabels{discoveryv1.LabelServiceName: name})
	err = errors.Join(err, client.IgnoreNotFound(w.admin.Get(w.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, &old)))
	var have, legacy []string
	for _, s := range all.Items {
		for _, e := range s.Endpoints {
			have = append(have, e.Addresses...)
		}
	}
	for _, s := range old.Subsets {
		for _, a := range s.Addresses {
			legacy = append(legacy, a.IP)
		}
	}
	slices.Sort(have)
	overlay := slices.DeleteFunc(slices.Clone(want), func(a string) bool { return a[:3] != "10." })
	slices.Sort(legacy)
	if !slices.Equal(have, want) || !slices.Equal(legacy, overlay) {
		return fmt.Errorf("slices have %v, Endpoints %v; want %v: %w", have, legacy, want, err)
	}
	return err
}

// answers reports an error until DNS answers a name with these addresses and no others.
func (w *services) answers(name string, want ...string) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
	defer cancel()
	got, err := w.dns.LookupHost(ctx, name+".default.svc.cluster.local.")
	if slices.Sort(got); !slices.Equal(got, want) {
		return fmt.Errorf("DNS answers %v; want %v: %w", got, want, err)
	}
	return nil
}

func (w *services) patch(name, body string) {
	w.t.Helper()
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if err := w.admin.Patch(w.t.Context(), svc, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		w.t.Fatal(err)
	}
}

// I10: beside Kubernetes' own endpoint controllers and CoreDNS, a headless Service that
// was created while Culvert was away has only its pods' VF addresses. Its pods have
// their names. Removing the annotation undoes all of it. The shipped rights suffice.
func TestI10ServicesBesideKubernetesOwnControllers(t *testing.T) {
	w := newServicesCluster(t)
	va := w.addPod("a", "n1", "10.244.1.5", "172.16.91.20")
	vb := w.addPod("b", "n2", "10.244.2.5", "172.16.91.21")
	for _, o := range append(worker("n1", "z1", va), worker("n2", "z2", vb)...) {
		createObject(t, w.admin, o)
	}
	svc := webService(func(s *corev1.Service) { s.UID, s.Annotations = "", nil })
	createObject(t, w.admin, svc)
	overlay, vfs := []string{"10.244.1.5", "10.244.2.5"}, []string{"172.16.91.20", "172.16.91.21"}
	apiserver.Eventually(t, "the overlay's addresses", func() error { return w.endpointsAre("web", overlay...) })

	serveController(t, Config{Kube: asController(w.server.Config()), Metrics: "0", Services: endpoints.Rules{Defaults: []service.Network{{Namespace: "default", Name: "net1"}}}})
	apiserver.Eventually(t, "VF addresses by default", func() error { return w.endpointsAre("web", vfs...) })
	apiserver.Eventually(t, "DNS", func() error { return w.answers("web", vfs...) })
	apiserver.Eventually(t, "a pod's name", func() error { return w.answers("a.web", "172.16.91.20") })

	w.patch("web", `{"metadata":{"annotations":{"culvert.dev/network":""}}}`)
	apiserver.Eventually(t, "undone by the owner", func() error { return w.endpointsAre("web", overlay...) })
	w.patch("web", `{"metadata":{"annotations":{"culvert.dev/network":"net1"}}}`)
	apiserver.Eventually(t, "VF addresses by annotation", func() error { return w.endpointsAre("web", vfs...) })

	pod := &corev1.Pod{}
	if err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "b"}, pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	if err := w.admin.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	apiserver.Eventually(t, "DNS without a pod that is not ready", func() error { return w.answers("web", "172.16.91.20") })

	renamed := webService(func(s *corev1.Service) { s.UID, s.Name = "", "renamed" })
	createObject(t, w.admin, renamed)
	if err := w.admin.Delete(t.Context(), svc); err != nil {
		t.Fatal(err)
	}
	apiserver.Eventually(t, "nothing is left of the old name", func() error {
		var all discoveryv1.EndpointSliceList
		err := w.admin.List(t.Context(), &all, client.InNamespace("default"), client.MatchingLabels{discoveryv1.LabelServiceName: "web"})
		if len(all.Items) > 0 {
			return fmt.Errorf("%d EndpointSlices: %w", len(all.Items), err)
		}
		return err
	})
	apiserver.Eventually(t, "the new name", func() error { return w.answers("renamed", "172.16.91.20") })

	if err := w.admin.Delete(t.Context(), pod); err != nil { // a slice that another deletes comes back
		t.Fatal(err)
	}
	if err := w.admin.DeleteAllOf(t.Context(), &discoveryv1.EndpointSlice{}, client.InNamespace("default"), client.MatchingLabels{discoveryv1.LabelManagedBy: service.ManagedBy}); err != nil {
		t.Fatal(err)
	}
	apiserver.Eventually(t, "slices made again", func() error { return w.answers("renamed", "172.16.91.20") })
}
