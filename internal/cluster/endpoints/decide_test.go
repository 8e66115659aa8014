package endpoints

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/internal/network/service"
)

func newService(change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "s", Annotations: map[string]string{}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.7", Selector: map[string]string{"app": "web"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}},
	}
	for _, f := range change {
		f(s)
	}
	return s
}

func annotated(key, value string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Annotations[key] = value }
}

func named(namespace, name string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Namespace, s.Name = namespace, name }
}

func headless(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }

func ofType(t corev1.ServiceType) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Type = t }
}

func asking(networks string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": networks}}}
}

func TestDecide(t *testing.T) {
	net := annotated(service.NetworkAnnotation, "net1")
	noSelector := func(s *corev1.Service) { s.Spec.Selector = nil }
	keyOnly := func(s *corev1.Service) { s.Spec.Selector = map[string]string{service.SelectorKey: "default.net1"} }
	withKey := func(s *corev1.Service) { s.Spec.Selector[service.SelectorKey] = "default.net1" }
	both := []service.Network{{Namespace: "default", Name: "net1"}, {Namespace: "infra", Name: "net2"}}
	for _, tc := range []struct {
		name     string
		svc      *corev1.Service
		pods     []*corev1.Pod
		defaults []service.Network
		network  string
		key      bool
		refusal  string
	}{
		{"without an annotation", newService(), []*corev1.Pod{asking("net1")}, nil, "", false, ""},
		{"a bare name", newService(net), nil, nil, "default/net1", true, ""},
		{"another namespace", newService(annotated(service.NetworkAnnotation, "infra/net2")), nil, nil, "infra/net2", true, ""},
		{"headless", newService(net, headless), nil, nil, "default/net1", true, ""},
		{"no type yet", newService(net, ofType("")), nil, nil, "default/net1", true, ""},
		{"no name of a network", newService(annotated(service.NetworkAnnotation, "a/b/c")), nil, nil, "", false, "is no name of a network"},
		{"ExternalName", newService(net, ofType(corev1.ServiceTypeExternalName)), nil, nil, "", false, "a Service of type ExternalName"},
		{"the API server", newService(net, named("default", "kubernetes")), nil, nil, "", false, "neither the API server's Service"},
		{"kube-dns", newService(net, named("kube-system", "kube-dns")), nil, nil, "", false, "neither the API server's Service"},
		{"another kubernetes", newService(net, named("red", "kubernetes")), nil, nil, "red/net1", true, ""},
		{"LoadBalancer", newService(net, ofType(corev1.ServiceTypeLoadBalancer)), nil, nil, "", false, "a Service of type LoadBalancer"},
		{"NodePort", newService(net, ofType(corev1.ServiceTypeNodePort)), nil, nil, "", false, "a Service of type NodePort"},
		{"no selector", newService(net, noSelector), nil, nil, "", false, "has no selector"},
		{"no selector but Culvert's", newService(net, keyOnly), nil, nil, "", false, "has no selector"},
		{"fallback", newService(net, annotated(service.FallbackAnnotation, "default-network")), nil, nil, "default/net1", false, ""},
		{"fallback of another name", newService(net, annotated(service.FallbackAnnotation, "yes")), nil, nil, "", false, `"yes": want default-network`},
		{"fallback of a headless one", newService(net, headless, annotated(service.FallbackAnnotation, "default-network")), nil, nil, "", false, "so it has no fallback"},
		{"fallback alone", newService(annotated(service.FallbackAnnotation, "default-network")), nil, nil, "", false, ""},

		{"default", newService(), []*corev1.Pod{asking("x"), asking("net1@eth5")}, both, "default/net1", true, ""},
		{"default of R0", newService(headless), []*corev1.Pod{asking(`[{"name":"net1","namespace":"default"}]`)}, both, "default/net1", true, ""},
		{"the first of two defaults", newService(), []*corev1.Pod{asking("infra/net2"), asking("net1")}, both, "default/net1", true, ""},
		{"the second", newService(), []*corev1.Pod{asking("infra/net2")}, both, "infra/net2", true, ""},
		{"default with the fallback", newService(annotated(service.FallbackAnnotation, "default-network")), []*corev1.Pod{asking("net1")}, both, "default/net1", false, ""},
		{"no pod asks", newService(withKey), []*corev1.Pod{asking("other"), asking("a@b@c")}, both, "", false, ""},
		{"no pod at all", newService(), nil, both, "", false, ""},
		{"no pod any more", newService(withKey), nil, both, "default/net1", true, ""},
		{"no default any more", newService(withKey), nil, both[1:], "", false, ""},
		{"kept away", newService(annotated(service.NetworkAnnotation, "")), []*corev1.Pod{asking("net1")}, both, "", false, ""},
		{"the annotation before the default", newService(annotated(service.NetworkAnnotation, "infra/net2")), []*corev1.Pod{asking("net1")}, both, "infra/net2", true, ""},
		{"LoadBalancer without an annotation", newService(ofType(corev1.ServiceTypeLoadBalancer)), []*corev1.Pod{asking("net1")}, both, "", false, ""},
		{"NodePort without an annotation", newService(ofType(corev1.ServiceTypeNodePort), withKey), []*corev1.Pod{asking("net1")}, both, "", false, ""},
		{"ExternalName without an annotation", newService(ofType(corev1.ServiceTypeExternalName)), []*corev1.Pod{asking("net1")}, both, "", false, ""},
		{"no selector, no annotation", newService(noSelector), nil, both, "", false, ""},
	} {
		d := Rules{Defaults: tc.defaults}.Decide(tc.svc, tc.pods)
		got := ""
		if d.Network != nil {
			got = d.Network.String()
		}
		if _, key := d.WantedKey(); got != tc.network || key != tc.key || (d.Refusal == "") != (tc.refusal == "") || !strings.Contains(d.Refusal, tc.refusal) {
			t.Errorf("%s: %s, key %t, %q; want %s, %t, %q", tc.name, got, key, d.Refusal, tc.network, tc.key, tc.refusal)
		}
	}
}

func TestDecideWhenOff(t *testing.T) {
	svc := newService(annotated(service.NetworkAnnotation, "net1"), ofType(corev1.ServiceTypeLoadBalancer))
	if d := (Rules{Off: true}).Decide(svc, nil); d != (Decision{}) {
		t.Errorf("%+v", d)
	}
}

func TestSelects(t *testing.T) {
	for _, tc := range []struct {
		selector, labels map[string]string
		want             bool
	}{
		{nil, nil, false},
		{map[string]string{service.SelectorKey: "a.b"}, map[string]string{service.SelectorKey: "a.b"}, false},
		{map[string]string{"app": "web", service.SelectorKey: "a.b"}, map[string]string{"app": "web"}, true},
		{map[string]string{"app": "web"}, map[string]string{"app": "db"}, false},
		{map[string]string{"app": ""}, nil, false},
		{map[string]string{"app": "web", "tier": "x"}, map[string]string{"app": "web", "tier": "x", "more": "y"}, true},
	} {
		if got := Selects(newService(func(s *corev1.Service) { s.Spec.Selector = tc.selector }), tc.labels); got != tc.want {
			t.Errorf("selector %v, labels %v: %t", tc.selector, tc.labels, got)
		}
	}
}
