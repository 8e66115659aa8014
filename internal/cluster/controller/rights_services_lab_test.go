//go:build lab

package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/network/service"
	"github.com/culvert-net/culvert/test/apiserver"
)

// sliceOf is an EndpointSlice of a manager, of the kind that Culvert makes.
func sliceOf(name, manager string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "web", UID: "x"}},
			Labels: map[string]string{
				discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: manager, service.NetworkLabel: "a.b", corev1.IsHeadlessService: "",
			},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}}},
	}
}

// changeSlice is an attack that reads an EndpointSlice and writes it back changed.
func changeSlice(name string, change func(*discoveryv1.EndpointSlice)) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		s := &discoveryv1.EndpointSlice{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, s); err != nil {
			return err
		}
		change(s)
		return c.Update(ctx, s)
	}
}

// serviceAttacks returns writes to Services and EndpointSlices that the controller's credential
// must not be able to make.
func (r cluster) serviceAttacks(t *testing.T) []attack {
	t.Helper()
	const services, endpoints = "culvert-services", "culvert-controller-endpointslices"
	web := webService(func(s *corev1.Service) { s.UID, s.Spec.ClusterIP, s.Spec.IPFamilies = "", "", nil })
	balanced := web.DeepCopy()
	balanced.Name, balanced.Spec.Type, balanced.Annotations = "balanced", corev1.ServiceTypeLoadBalancer, nil
	bare := web.DeepCopy()
	bare.Name, bare.Spec.Selector, bare.Annotations = "bare", nil, nil
	for _, o := range []client.Object{web, balanced, bare, sliceOf("theirs", "x"), sliceOf("deleted", "x")} {
		createObject(t, r.admin, o)
	}
	own := connect(t, asController(r.config))
	apiserver.Eventually(t, "own slice", func() error { return own.Create(t.Context(), sliceOf("own", service.ManagedBy)) })
	var out []attack
	for name, body := range map[string]string{
		"key of the selector":       `{"spec":{"selector":{"tier":"x"}}}`,
		"selector changed":          `{"spec":{"selector":{"app":"x"}}}`,
		"selector emptied":          `{"spec":{"selector":null}}`,
		"external address":          `{"spec":{"externalIPs":["192.0.2.1"]}}`,
		"port":                      `{"spec":{"ports":[{"name":"http","port":81,"protocol":"TCP"}]}}`,
		"session affinity":          `{"spec":{"sessionAffinity":"ClientIP"}}`,
		"label":                     `{"metadata":{"labels":{"service.kubernetes.io/service-proxy-name":"x"}}}`,
		"annotation":                `{"metadata":{"annotations":{"culvert.dev/network":""}}}`,
		"finalizer":                 `{"metadata":{"finalizers":["example.com/x"]}}`,
		"owner":                     `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"x"}]}}`,
		"type":                      `{"spec":{"type":"NodePort"}}`,
		"Culvert's key with others": `{"spec":{"selector":{"endpoints.culvert.dev/network":"a.b","more":"x"}}}`,
	} {
		out = append(out, attack{name + " of a Service", services, patchObject(web, body)})
	}
	for name, change := range map[string]func(*discoveryv1.EndpointSlice){
		"that kube-proxy reads": func(s *discoveryv1.EndpointSlice) { delete(s.Labels, corev1.IsHeadlessService) },
		"of no network":         func(s *discoveryv1.EndpointSlice) { delete(s.Labels, service.NetworkLabel) },
		"that stays":            func(s *discoveryv1.EndpointSlice) { s.Finalizers = []string{"example.com/x"} },
		"of nobody":             func(s *discoveryv1.EndpointSlice) { s.OwnerReferences = nil },
		"of a pod":              func(s *discoveryv1.EndpointSlice) { s.OwnerReferences[0].Kind = "Pod" },
		"of another Service":    func(s *discoveryv1.EndpointSlice) { s.OwnerReferences[0].Name = "other" },
		"of two owners": func(s *discoveryv1.EndpointSlice) {
			s.OwnerReferences = append(s.OwnerReferences, s.OwnerReferences[0])
			s.OwnerReferences[1].UID = "y"
		},
		"of the API server": func(s *discoveryv1.EndpointSlice) {
			s.Labels[discoveryv1.LabelServiceName], s.OwnerReferences[0].Name = "kubernetes", "kubernetes"
		},
		"of kube-dns": func(s *discoveryv1.EndpointSlice) {
			s.Namespace, s.Labels[discoveryv1.LabelServiceName], s.OwnerReferences[0].Name = "kube-system", "kube-dns", "kube-dns"
		},
	} {
		s := sliceOf(strings.ReplaceAll(name, " ", "-"), service.ManagedBy)
		s.Name = strings.ToLower(s.Name)
		change(s)
		out = append(out, attack{"slice " + name, endpoints, createAs(s)})
	}
	return append(out,
		attack{"own slice redirected to the API server", endpoints, changeSlice("own", func(s *discoveryv1.EndpointSlice) {
			s.Labels[discoveryv1.LabelServiceName], s.OwnerReferences[0].Name = "kubernetes", "kubernetes"
		})},
		attack{"key in an empty selector", services, patchObject(bare, `{"spec":{"selector":{"endpoints.culvert.dev/network":"a.b"}}}`)},
		attack{"condition of another", services, patchStatus(web, `{"status":{"conditions":[{"type":"example.com/x","status":"True","reason":"X","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)},
		attack{"address of a load balancer", services, patchStatus(balanced, `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`)},
		attack{"slice of another manager", endpoints, createAs(sliceOf("forged", "endpointslice-controller.k8s.io"))},
		attack{"another's slice changed", endpoints, changeSlice("theirs", func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil })},
		attack{"another's slice taken", endpoints, changeSlice("theirs", func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = service.ManagedBy })},
		attack{"another's slice deleted", endpoints, func(ctx context.Context, c client.Client) error { return c.Delete(ctx, sliceOf("deleted", "x")) }},
	)
}

// I9: culvertd trusts the EndpointSlices that have Culvert's label, so no other credential
// makes or changes one, an administrator's included. Deleting them is open to the garbage collector.
func TestI9OthersMakeNoSliceOfCulvert(t *testing.T) {
	r := newRealCluster(t)
	own := connect(t, asController(r.config))
	for _, name := range []string{"own", "left", "relabelled", "held", "shared", "orphan"} {
		apiserver.Eventually(t, "slice "+name, func() error { return own.Create(t.Context(), sliceOf(name, service.ManagedBy)) }) // its rights take a moment
	}
	empty := sliceOf("empty", service.ManagedBy)
	empty.Endpoints = nil
	createObject(t, own, empty)
	createObject(t, r.admin, sliceOf("theirs", "x"))
	for _, name := range []string{"orphan", "empty"} {
		if err := changeSlice(name, func(s *discoveryv1.EndpointSlice) { s.OwnerReferences = nil })(t.Context(), r.admin); err != nil {
			t.Errorf("the owner of slice %s of Culvert's cannot be taken away: %v", name, err)
		}
	}
	if err := changeSlice("left", func(s *discoveryv1.EndpointSlice) {
		no := false
		s.OwnerReferences[0].BlockOwnerDeletion = &no
	})(t.Context(), r.admin); err != nil {
		t.Errorf("the owner of a slice of Culvert's cannot be changed: %v", err)
	}
	if err := r.admin.Delete(t.Context(), sliceOf("left", "")); err != nil {
		t.Errorf("a slice of Culvert's cannot be deleted: %v", err)
	}
	const policy = "culvert-own-endpointslices"
	r.provePolicies(t, r.admin, []attack{
		{"slice with Culvert's label", policy, createAs(sliceOf("forged", service.ManagedBy))},
		{"label of Culvert added", policy, changeSlice("theirs", func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = service.ManagedBy })},
		{"label of Culvert removed", policy, changeSlice("relabelled", func(s *discoveryv1.EndpointSlice) { delete(s.Labels, discoveryv1.LabelManagedBy) })},
		{"endpoint of Culvert's changed", policy, changeSlice("own", func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "192.0.2.2" })},
		// The controller may not write a slice with either of these. So the slice would keep its
		// addresses when they are another pod's.
		{"Culvert's kept by a finalizer", policy, changeSlice("held", func(s *discoveryv1.EndpointSlice) { s.Finalizers = []string{"example.com/x"} })},
		{"second owner of Culvert's", policy, changeSlice("shared", func(s *discoveryv1.EndpointSlice) {
			s.OwnerReferences = append(s.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "y"})
		})},
		{"network of Culvert's changed", policy, changeSlice("own", func(s *discoveryv1.EndpointSlice) { s.Labels[service.NetworkLabel] = "c.d" })},
	})
	for _, name := range []string{"held", "shared"} {
		if err := changeSlice(name, func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil })(t.Context(), own); err == nil {
			t.Errorf("the controller can write slice %s: then the policy need not refuse that attack", name)
		}
	}
}

// I9: the controller trusts the annotation culvert.dev/confirmed of a pod, so no other credential
// adds or changes one on a pod that is there. A new pod may have a copy of the annotation, which
// names another pod. Everybody who may edit a pod can remove the annotation.
func TestI9OthersConfirmNoAddress(t *testing.T) {
	r := newRealCluster(t)
	const policy, text = "culvert-confirmations", `{"metadata":{"annotations":{"culvert.dev/confirmed":%s}}}`
	bare, confirmed, copied := runningPod("default", "bare", "n1"), runningPod("default", "confirmed", "n1"), runningPod("default", "copied", "n1")
	pending := runningPod("default", "pending", "")
	copied.Annotations[netannotation.Confirmed] = "{}"
	for _, p := range []*corev1.Pod{bare, confirmed, copied, pending} {
		createObject(t, r.admin, p)
	}
	culvertd := connect(t, r.withToken(t, "culvertd", "n1"))
	apiserver.Eventually(t, "culvertd confirms", func() error {
		return patchStatus(confirmed.DeepCopy(), fmt.Sprintf(text, `"{\"pod\":\"1\"}"`))(t.Context(), culvertd)
	})
	if err := patchObject(confirmed.DeepCopy(), `{"metadata":{"labels":{"a":"b"}}}`)(t.Context(), r.admin); err != nil {
		t.Errorf("a label of a confirmed pod cannot be changed: %v", err)
	}
	if err := patchObject(copied.DeepCopy(), fmt.Sprintf(text, "null"))(t.Context(), r.admin); err != nil {
		t.Errorf("a confirmation cannot be removed: %v", err)
	}
	bind := func(ctx context.Context, c client.Client) error {
		b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pending.Name, Annotations: map[string]string{netannotation.Confirmed: "{}"}}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}
		return c.SubResource("binding").Create(ctx, pending.DeepCopy(), b)
	}
	r.provePolicies(t, r.admin, []attack{
		{"confirmation of a pod that has none", policy, patchObject(bare.DeepCopy(), fmt.Sprintf(text, `"{}"`))},
		{"confirmation by the status", policy, patchStatus(copied.DeepCopy(), fmt.Sprintf(text, `"{}"`))},
		{"confirmation that was removed", policy, patchObject(copied.DeepCopy(), fmt.Sprintf(text, `"{\"pod\":\"2\"}"`))},
		{"confirmation changed", policy, patchObject(confirmed.DeepCopy(), fmt.Sprintf(text, `"{\"pod\":\"3\"}"`))},
		{"confirmation with a Binding", policy, bind},
	})
}

// poolAttacks returns writes to AddressPools that the controller's credential must not be able to
// make: a person declares a pool's subnets and who may use it.
func (r cluster) poolAttacks(t *testing.T) []attack {
	t.Helper()
	declared := declaredPool("storage", "10.9.0.0/24")
	declared.Spec.Namespaces = []string{"red"}
	createObject(t, r.admin, declared)
	own := connect(t, asController(r.config))
	change := func(change func(*v1alpha1.AddressPoolSpec)) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			p := &v1alpha1.AddressPool{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(declared), p); err != nil {
				return err
			}
			change(&p.Spec)
			return c.Update(ctx, p)
		}
	}
	blocks := change(func(s *v1alpha1.AddressPoolSpec) {
		s.Blocks = []v1alpha1.AddressBlock{{Node: "n1", First: "10.9.0.2", Last: "10.9.0.9"}}
	})
	apiserver.Eventually(t, "blocks of a declared pool", func() error { return blocks(t.Context(), own) })
	var out []attack
	for name, c := range map[string]func(*v1alpha1.AddressPoolSpec){
		"subnets of a declared pool":     func(s *v1alpha1.AddressPoolSpec) { s.Subnets[0].CIDR = "10.9.0.0/16" },
		"namespaces of a declared pool":  func(s *v1alpha1.AddressPoolSpec) { s.Namespaces = append(s.Namespaces, "blue") },
		"a declared pool opened":         func(s *v1alpha1.AddressPoolSpec) { s.Namespaces = nil },
		"block size of a declared pool":  func(s *v1alpha1.AddressPoolSpec) { s.BlockSize = 64 },
		"keepAddress of a declared pool": func(s *v1alpha1.AddressPoolSpec) { s.KeepAddress = &metav1.Duration{Duration: time.Hour} },
	} {
		out = append(out, attack{name, "culvert-declared-addresspools", change(c)})
	}
	return append(out, attack{"a pool declared by the controller", "culvert-declared-addresspools", createAs(declaredPool("mine", "10.7.0.0/24"))})
}
