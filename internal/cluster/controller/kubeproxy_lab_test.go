//go:build lab

package controller

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/internal/network/service"
	"github.com/culvert-net/culvert/test/apiserver"
)

// servedSlice is an EndpointSlice of a manager that kube-proxy reads: it has a port of Service web,
// and no label of a headless one.
func servedSlice(name, manager, address string) *discoveryv1.EndpointSlice {
	s := sliceOf(name, manager)
	delete(s.Labels, corev1.IsHeadlessService)
	s.Ports = []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP)}}
	s.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}}
	return s
}

// sendsTo says whether kube-proxy's rules have connections to port 8080 of an address. kube-proxy 1.37
// has several endpoints of a Service in one map.
func sendsTo(rules, address string) bool {
	return strings.Contains(rules, "dnat to "+address+":8080") || strings.Contains(rules, " : "+address+" . 8080")
}

// asTenant is a connection of a user who has all rights in the namespace default, and none elsewhere.
func (r cluster) asTenant(t *testing.T) client.Client {
	t.Helper()
	createObject(t, r.admin, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "tenant"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "tenant"}},
	})
	c := rest.CopyConfig(r.config)
	c.Impersonate = rest.ImpersonationConfig{UserName: "tenant", Groups: []string{"system:authenticated"}}
	return connect(t, c)
}

// sliceTakeovers returns, by the address that kube-proxy would send connections to, a tenant's attacks on
// the EndpointSlices that Culvert has made.
func sliceTakeovers() map[string]attack {
	const policy = "culvert-own-endpointslices"
	open := func(name string, change func(*discoveryv1.EndpointSlice)) func(context.Context, client.Client) error {
		return changeSlice(name, func(s *discoveryv1.EndpointSlice) { delete(s.Labels, corev1.IsHeadlessService); change(s) })
	}
	return map[string]attack{
		"192.0.2.1": {"slice with Culvert's label", policy, createAs(servedSlice("forged", service.ManagedBy, "192.0.2.1"))},
		"192.0.2.2": {"address in Culvert's slice", policy, open("changed", func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "192.0.2.2" })},
		"10.90.0.2": {"Culvert's slice opened", policy, open("opened", func(*discoveryv1.EndpointSlice) {})},
		"10.90.0.3": {"Culvert's slice opened and held", policy, open("held", func(s *discoveryv1.EndpointSlice) { s.Finalizers = []string{"example.com/x"} })},
		"10.90.0.4": {"Culvert's slice opened for another owner", policy, open("owned", func(s *discoveryv1.EndpointSlice) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "y"}}
		})},
	}
}

// I9: kube-proxy sends no connection to an address that a tenant puts into an EndpointSlice with Culvert's
// label. Nor does it to the addresses of Culvert's slices, or to one by the controller's token. The real
// kube-proxy runs beside the real API server. Without the policies its rules have each of these addresses.
func TestI9KubeProxySeesNoForeignAddress(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("kube-proxy runs in a network namespace of its own, which only root may make")
	}
	r := newRealCluster(t)
	createObject(t, r.admin, webService(func(s *corev1.Service) { s.UID, s.Spec.ClusterIP, s.Spec.IPFamilies, s.Annotations = "", "", nil, nil }))
	rules := r.server.RunKubeProxy("n1")
	sees := func(address string) error {
		text, err := rules()
		if err == nil && !sendsTo(text, address) {
			err = fmt.Errorf("kube-proxy's rules have no %s:\n%s", address, text)
		}
		return err
	}
	createObject(t, r.admin, servedSlice("theirs", "x", "192.0.2.100"))
	apiserver.Eventually(t, "kube-proxy serves the Service", func() error { return sees("192.0.2.100") })

	own, tenant := connect(t, asController(r.config)), r.asTenant(t)
	for i, name := range []string{"changed", "opened", "held", "owned"} {
		s := servedSlice(name, service.ManagedBy, fmt.Sprintf("10.90.0.%d", i+1))
		s.Labels[corev1.IsHeadlessService] = ""
		apiserver.Eventually(t, "slice "+name, func() error { return own.Create(t.Context(), s) }) // its rights take a moment
	}
	takeovers := sliceTakeovers()
	const stolen = "192.0.2.3"
	byController := attack{"slice by the controller's token", "culvert-controller-endpointslices", createAs(servedSlice("stolen", service.ManagedBy, stolen))}
	for _, a := range takeovers {
		requireRefused(t, tenant, a)
	}
	requireRefused(t, own, byController)
	createObject(t, r.admin, servedSlice("later", "x", "192.0.2.101"))
	apiserver.Eventually(t, "kube-proxy has read all slices before a later one", func() error { return sees("192.0.2.101") })
	foreign := append(slices.Collect(maps.Keys(takeovers)), stolen)
	for _, address := range append(foreign, "10.90.0.1") {
		if sees(address) == nil {
			t.Errorf("I9: kube-proxy sends connections to %s", address)
		}
	}
	r.provePolicies(t, tenant, slices.Collect(maps.Values(takeovers)))
	r.provePolicies(t, own, []attack{byController})
	for _, address := range foreign {
		apiserver.Eventually(t, "without the policies", func() error { return sees(address) })
	}
}
