package controller

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/culvert-net/culvert/internal/network/netannotation"
)

// manifest has the objects of the manifests that people apply.
func manifest(t *testing.T) (all []*unstructured.Unstructured) {
	t.Helper()
	for _, file := range []string{"network-attachment-definitions.yaml", "culvert.yaml"} {
		content, err := os.ReadFile("../../../dist/kubernetes/" + file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, decodeObjects(t, content)...)
	}
	return all
}

// decodeObjects reads the documents of a YAML file.
func decodeObjects(t *testing.T, content []byte) (all []*unstructured.Unstructured) {
	t.Helper()
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := documents.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Object) > 0 { // a document may have only comments
			all = append(all, o)
		}
	}
}

// installed is an object of the manifest.
func installed[T any](t *testing.T, kind, name string) *T {
	t.Helper()
	return objectOf[T](t, manifest(t), kind, name)
}

// objectOf returns the object of a kind and name.
func objectOf[T any](t *testing.T, all []*unstructured.Unstructured, kind, name string) *T {
	t.Helper()
	for _, o := range all {
		if o.GetKind() == kind && o.GetName() == name {
			out := new(T)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out); err != nil {
				t.Fatal(err)
			}
			return out
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

// No short name of Culvert's kinds is taken in usual clusters: kubectl asks for the first kind of a
// short name, and Cilium's policies are cnp. NetworkAttachmentDefinitions have the short name that
// Multus gives them.
func TestShortNamesAreFree(t *testing.T) {
	taken := []string{"cnp", "ccnp", "cep", "ciliumep", "cid", "cn", "cegp", "clrp", "ces", // Cilium
		"cm", "cs", "ds", "ep", "ev", "no", "ns", "po", "pv", "pvc", "quota", "rc", "rs", "sa", "sc", "svc", "np", "netpol", "crd", "crds", "csr", "cj", "ing", "pc", "pdb", "hpa", "deploy", "sts", "limits", "ipaddr"} // Kubernetes
	want := map[string][]string{"nodepolicies": {"cvnp"}, "nodestates": {"cns"}, "addresspools": {"cap"}, "network-attachment-definitions": {"net-attach-def"}}
	got := map[string][]string{}
	for _, o := range manifest(t) {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		plural, _, _ := unstructured.NestedString(o.Object, "spec", "names", "plural")
		got[plural], _, _ = unstructured.NestedStringSlice(o.Object, "spec", "names", "shortNames")
		for _, name := range got[plural] {
			if slices.Contains(taken, name) {
				t.Errorf("%s have the short name %s, which is another kind's", plural, name)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A webhook that is down blocks no request. The API server waits for a webhook on a busy node: a
// pod that missed the webhook has to be made again.
func TestWebhooksAreWaitedForAndBlockNobody(t *testing.T) {
	type answer struct {
		seconds *int32
		without *admissionv1.FailurePolicyType
	}
	got := map[string]answer{}
	for _, w := range installed[admissionv1.MutatingWebhookConfiguration](t, "MutatingWebhookConfiguration", "culvert").Webhooks {
		got[w.Name] = answer{w.TimeoutSeconds, w.FailurePolicy}
	}
	for _, w := range installed[admissionv1.ValidatingWebhookConfiguration](t, "ValidatingWebhookConfiguration", "culvert").Webhooks {
		got[w.Name] = answer{w.TimeoutSeconds, w.FailurePolicy}
	}
	seconds, without := int32(10), admissionv1.Ignore
	want := map[string]answer{}
	for _, name := range []string{"pods", "services", "networks", "nodepolicies", "addresspools", "claims"} {
		want[name+".culvert.dev"] = answer{&seconds, &without}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(answer{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The API server itself evaluates the policies. It refuses a request if it cannot evaluate a
// policy, and each policy has a binding that denies.
func TestAdmissionPoliciesFailClosed(t *testing.T) {
	policies := 0
	for _, o := range manifest(t) {
		if o.GetKind() != "ValidatingAdmissionPolicy" {
			continue
		}
		policies++
		p := installed[admissionv1.ValidatingAdmissionPolicy](t, o.GetKind(), o.GetName())
		if fail := p.Spec.FailurePolicy; fail == nil || *fail != admissionv1.Fail {
			t.Errorf("%s does not fail closed", p.Name)
		}
		b := installed[admissionv1.ValidatingAdmissionPolicyBinding](t, "ValidatingAdmissionPolicyBinding", p.Name)
		if b.Spec.PolicyName != p.Name || b.Spec.MatchResources != nil || !slices.Equal(b.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny}) {
			t.Errorf("binding %s: %+v", b.Name, b.Spec)
		}
	}
	if policies == 0 {
		t.Error("the manifest has no policy")
	}
}

// The controller's NetworkPolicy selects its pods and opens every port that they serve, and
// toward others only those of API servers and DNS. It selects no pods of measurements.
func TestNetworkPolicyIsTheControllers(t *testing.T) {
	p := installed[networkingv1.NetworkPolicy](t, "NetworkPolicy", "culvert-controller").Spec
	pod := installed[appsv1.Deployment](t, "Deployment", "culvert-controller").Spec.Template
	selector, err := metav1.LabelSelectorAsSelector(&p.PodSelector)
	if err != nil || selector.Empty() || !selector.Matches(labels.Set(pod.Labels)) {
		t.Errorf("it selects %v, %v; the pods have %v", selector, err, pod.Labels)
	}
	var served, open, reached []string
	for _, port := range pod.Spec.Containers[0].Ports {
		served = append(served, port.Name)
	}
	for _, rule := range p.Ingress {
		for _, port := range rule.Ports {
			open = append(open, port.Port.String())
		}
	}
	if diff := cmp.Diff(served, open); diff != "" {
		t.Errorf("ports (-served +open):\n%s", diff)
	}
	for _, rule := range p.Egress {
		for _, port := range rule.Ports {
			reached = append(reached, string(*port.Protocol)+" "+port.Port.String())
		}
	}
	want := []string{"TCP 443", "TCP 6443", "TCP 8443", "TCP 16443", "UDP 53", "TCP 53"}
	if diff := cmp.Diff(want, reached); diff != "" || len(p.PolicyTypes) != 2 {
		t.Errorf("%v, toward others (-want +got):\n%s", p.PolicyTypes, diff)
	}
}

// On a busy node the kubelet neither restarts the controller nor reports it as not ready, which
// would take it away from the callers of its webhooks.
func TestControllersProbesBearABusyNode(t *testing.T) {
	d := installed[appsv1.Deployment](t, "Deployment", "culvert-controller")
	c := d.Spec.Template.Spec.Containers[0]
	for name, p := range map[string]struct {
		probe           *corev1.Probe
		timeout, period int32
	}{"liveness": {c.LivenessProbe, 10, 20}, "readiness": {c.ReadinessProbe, 5, 5}} {
		if p.probe == nil || p.probe.TimeoutSeconds != p.timeout || p.probe.PeriodSeconds != p.period {
			t.Errorf("%s: %v, want %d s to answer, every %d s", name, p.probe, p.timeout, p.period)
		}
	}
}

// A leader that is slow on a busy node stays the leader. A leader that ends gives the lease back.
func TestLeaderBearsABusyNode(t *testing.T) {
	o := Config{}.options(&keeper{})
	if *o.LeaseDuration != 40*time.Second || *o.RenewDeadline != 30*time.Second || *o.RetryPeriod != 5*time.Second {
		t.Errorf("lease %s, renewed within %s, tried every %s", o.LeaseDuration, o.RenewDeadline, o.RetryPeriod)
	}
	if !o.LeaderElectionReleaseOnCancel {
		t.Error("an upgrade waits for the lease to end")
	}
}

// The manifest isolates namespaces, on the nodes and in the controller, without a word of the
// administrator.
func TestManifestIsolatesNamespaces(t *testing.T) {
	want := []string{"--global-namespaces=" + strings.Join(netannotation.DefaultGlobal(), ","), "--namespace-isolation=true"}
	for name, args := range map[string][]string{
		"culvertd":           installed[appsv1.DaemonSet](t, "DaemonSet", "culvertd").Spec.Template.Spec.Containers[0].Args,
		"culvert-controller": installed[appsv1.Deployment](t, "Deployment", "culvert-controller").Spec.Template.Spec.Containers[0].Args,
	} {
		for _, arg := range want {
			if !slices.Contains(args, arg) {
				t.Errorf("%s is not started with %s: %q", name, arg, args)
			}
		}
	}
}
