//go:build lab

package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/node/kube"
	"github.com/culvert-net/culvert/test/apiserver"
)

const ownNamespace = "culvert-system"

// attack is a write that RBAC grants to a credential and a policy refuses.
type attack struct {
	name, policy string
	try          func(context.Context, client.Client) error
}

// cluster is a real API server with the shipped manifest, the nodes n1 and n2, and a pod
// of each.
type cluster struct {
	server *apiserver.Server
	admin  client.Client
	config *rest.Config
}

func newRealCluster(t *testing.T) cluster {
	t.Helper()
	server := apiserver.New(t)
	server.CRDs()
	c := connect(t, server.Config())
	install(t, c, "Namespace", "ServiceAccount", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
		"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
	for _, node := range []string{"n1", "n2"} {
		n := newNode(node, map[string]string{"zone": "a"})
		n.Annotations = map[string]string{"example.com/theirs": "1"}
		createObject(t, c, n)
		createObject(t, c, runningPod("default", "on-"+node, node))
	}
	return cluster{server, c, server.Config()}
}

func connect(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func runningPod(namespace, name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}, Annotations: map[string]string{"example.com/theirs": "1"}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// withToken is a connection with a real token of a service account. The token is bound to
// a pod of the node, as the kubelet's projected tokens are; without a node it is bound to
// nothing.
func (r cluster) withToken(t *testing.T, account, node string) *rest.Config {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	if node != "" {
		pod := runningPod(ownNamespace, account+"-"+node, node)
		pod.Spec.ServiceAccountName = account
		createObject(t, r.admin, pod)
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ownNamespace, Name: account}}
	if err := r.admin.SubResource("token").Create(t.Context(), sa, request); err != nil {
		t.Fatal(err)
	}
	c := rest.CopyConfig(r.config)
	c.BearerToken = request.Status.Token
	return c
}

// provePolicies sees each attack refused by its policy, removes the policies' bindings, and
// sees each attack succeed.
func (r cluster) provePolicies(t *testing.T, attacker client.Client, attacks []attack) {
	t.Helper()
	ctx := t.Context()
	for _, a := range attacks {
		requireRefused(t, attacker, a)
	}
	for _, a := range attacks {
		binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: a.policy}}
		if err := client.IgnoreNotFound(r.admin.Delete(ctx, binding)); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range attacks {
		apiserver.Eventually(t, a.name+" without the policy", func() error { return a.try(ctx, attacker) })
	}
}

// requireRefused sees an attack refused by its policy.
func requireRefused(t *testing.T, attacker client.Client, a attack) {
	t.Helper()
	try := func(c client.Client) error {
		if err := a.try(t.Context(), c); err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+a.policy+"'") {
			return fmt.Errorf("I10: not refused by %s: %w", a.policy, err)
		}
		return nil
	}
	apiserver.Eventually(t, a.name, func() error { return try(client.NewDryRunClient(attacker)) }) // until the policy is in force
	if err := try(attacker); err != nil {
		t.Errorf("%s: %v", a.name, err)
	}
}

// patchObject is an attack's merge patch of an object, patchStatus of its status.
func patchObject(o client.Object, body string) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(body)))
	}
}

func patchStatus(o client.Object, body string) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(body)))
	}
}

func createAs(o client.Object) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error { return c.Create(ctx, o) }
}

// reportedBy is an event about an object by a reporter.
func reportedBy(name, component, host, kind, about string) *corev1.Event {
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: name},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: kind, Name: about},
		Source:         corev1.EventSource{Component: component, Host: host}, Reason: "Reason", Message: "text", Type: "Warning",
	}
	if kind == "Pod" {
		e.InvolvedObject.Namespace = "default"
	}
	return e
}

// undeletable adds a finalizer to an event: a namespace is not deleted while an object in it
// has one.
func undeletable(e *corev1.Event) *corev1.Event {
	e.Finalizers = []string{"example.com/x"}
	return e
}

// changeOwnState is an attack's change of the NodeState of node n1, which is there.
func changeOwnState(change func(*v1alpha1.NodeState)) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		s := &v1alpha1.NodeState{}
		if err := c.Get(ctx, client.ObjectKey{Name: "n1"}, s); err != nil {
			return err
		}
		change(s)
		return c.Update(ctx, s)
	}
}

// nodeAttacks returns the writes that root of node n1 may try with culvertd's token.
func nodeAttacks() []attack {
	own, other := runningPod("default", "on-n1", ""), runningPod("default", "on-n2", "")
	const status = `{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/network-status":"[]"}}}`
	instance := reportedBy("instance", "culvertd", "n1", "Pod", "on-n1")
	instance.ReportingController, instance.ReportingInstance, instance.Action = "culvertd", "n2", "A"
	state := func() *v1alpha1.NodeState { return &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: "n2"}} }
	return []attack{
		{"network-status of another node's pod", "culvert-own-pods", patchStatus(other, status)},
		{"confirmation of another node's pod", "culvert-own-pods", patchStatus(other, `{"metadata":{"annotations":{"culvert.dev/confirmed":"{}"}}}`)},
		{"phase of another node's pod", "culvert-own-pods", patchStatus(other, `{"status":{"phase":"Failed"}}`)},
		{"address of an own pod", "culvert-own-pods", patchStatus(own, `{"status":{"podIP":"192.0.2.1","podIPs":[{"ip":"192.0.2.1"}]}}`)},
		{"phase of an own pod", "culvert-own-pods", patchStatus(own, `{"status":{"phase":"Failed"}}`)},
		{"condition of an own pod", "culvert-own-pods", patchStatus(own, `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)},
		{"label of an own pod", "culvert-own-pods", patchStatus(own, `{"metadata":{"labels":{"app":"billing"}}}`)},
		{"a label of an own pod removed", "culvert-own-pods", patchStatus(own, `{"metadata":{"labels":null}}`)},
		{"finalizer of an own pod", "culvert-own-pods", patchStatus(own, `{"metadata":{"finalizers":["example.com/x"]}}`)},
		{"networks of an own pod", "culvert-own-pods", patchStatus(own, `{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/networks":"x"}}}`)},
		{"another annotation changed", "culvert-own-pods", patchStatus(own, `{"metadata":{"annotations":{"example.com/theirs":"2"}}}`)},
		{"another annotation removed", "culvert-own-pods", patchStatus(own, `{"metadata":{"annotations":{"example.com/theirs":null}}}`)},
		{"network-status with something else", "culvert-own-pods", patchStatus(own, `{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/network-status":"[]","a":"b"}}}`)},
		{"another node's NodeState made", "culvert-own-nodestate", createAs(state())},
		{"another node's NodeState changed", "culvert-own-nodestate", func(ctx context.Context, c client.Client) error {
			s := state()
			if err := c.Get(ctx, client.ObjectKeyFromObject(s), s); apierrors.IsNotFound(err) {
				return c.Create(ctx, s) // refused all the same
			} else if err != nil {
				return err
			}
			s.Status.Version = "9"
			return c.Update(ctx, s)
		}},
		{"own NodeState that cannot be deleted", "culvert-own-nodestate", changeOwnState(func(s *v1alpha1.NodeState) { s.Finalizers = []string{"example.com/x"} })},
		{"own NodeState that keeps a namespace", "culvert-own-nodestate", changeOwnState(func(s *v1alpha1.NodeState) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "default", UID: "1", BlockOwnerDeletion: new(bool)}}
			*s.OwnerReferences[0].BlockOwnerDeletion = true
		})},
		{"own NodeState that keeps its Node", "culvert-own-nodestate", changeOwnState(func(s *v1alpha1.NodeState) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "1", BlockOwnerDeletion: new(bool)}}
			*s.OwnerReferences[0].BlockOwnerDeletion = true
		})},
		{"event of another node", "culvert-own-events", createAs(reportedBy("host", "culvertd", "n2", "Pod", "on-n1"))},
		{"event of the kubelet", "culvert-own-events", createAs(reportedBy("component", "kubelet", "n1", "Pod", "on-n1"))},
		{"event of no node", "culvert-own-events", createAs(reportedBy("none", "culvertd", "", "Pod", "on-n1"))},
		{"event with another node as instance", "culvert-own-events", createAs(instance)},
		{"event about another node", "culvert-own-events", createAs(reportedBy("about", "culvertd", "n1", "Node", "n2"))},
		{"event about a Deployment", "culvert-own-events", createAs(reportedBy("kind", "culvertd", "n1", "Deployment", "d"))},
		{"event that keeps its namespace from being deleted", "culvert-own-events", createAs(undeletable(reportedBy("finalizer", "culvertd", "n1", "Pod", "on-n1")))},
	}
}

// A node's credential changes its own objects and nothing else: each attack with a real token is
// refused, and succeeds once the policies are gone. The API server accepts culvertd's own writes.
func TestI10NodeChangesItsOwnObjectsOnly(t *testing.T) {
	r := newRealCluster(t)
	config := r.withToken(t, "culvertd", "n1")
	provesCulvertdWrites(t, r, config)
	c := connect(t, config)
	for name, err := range map[string]error{ // RBAC grants none of these
		"delete a NodeState":       c.Delete(t.Context(), &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}),
		"change a pod":             patchObject(runningPod("default", "on-n1", ""), `{"metadata":{"labels":{"a":"b"}}}`)(t.Context(), c),
		"delete a pod":             c.Delete(t.Context(), runningPod("default", "on-n1", "")),
		"change a Node":            patchObject(newNode("n1", nil), `{"metadata":{"labels":{"a":"b"}}}`)(t.Context(), c),
		"read Secrets":             c.List(t.Context(), &corev1.SecretList{}),
		"change a webhook":         patchObject(&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "culvert"}}, `{"webhooks":[]}`)(t.Context(), c),
		"delete a policy":          c.Delete(t.Context(), &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "culvert-own-pods"}}),
		"delete a policy's action": c.Delete(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "culvert-own-pods"}}),
	} {
		if !apierrors.IsForbidden(err) || strings.Contains(err.Error(), "ValidatingAdmissionPolicy '") {
			t.Errorf("I10: %s: %v", name, err)
		}
	}
	requireRefused(t, connect(t, r.withToken(t, "culvertd", "")),
		attack{"event by a token that is bound to no node", "culvert-own-events", createAs(reportedBy("unbound", "culvertd", "", "Pod", "on-n1"))})
	// RBAC ignores field selectors, and no policy sees a read: docs/threat-model.md says so.
	if err := errors.Join(c.List(t.Context(), &corev1.PodList{}), c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "on-n2"}, &corev1.Pod{})); err != nil {
		t.Errorf("read pods of other nodes: %v", err)
	}
	// Nor does a policy see the pod of an event. The event says which node reports it.
	if err := c.Create(t.Context(), reportedBy("about-theirs", "culvertd", "n1", "Pod", "on-n2")); err != nil {
		t.Errorf("event about another node's pod: %v", err)
	}
	r.provePolicies(t, c, nodeAttacks())
}

// provesCulvertdWrites has culvertd's own client write all that culvertd writes.
func provesCulvertdWrites(t *testing.T, r cluster, config *rest.Config) {
	t.Helper()
	k, err := kube.New(config, "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return k.Run(ctx) })
	t.Cleanup(func() { cancel(); _ = g.Wait() })
	for _, version := range []string{"1", "2"} {
		apiserver.Eventually(t, "its own NodeState", func() error { return k.WriteState(ctx, v1alpha1.NodeStateStatus{Version: version}) })
	}
	leaving := runningPod("default", "leaving", "n1")
	leaving.Finalizers = []string{"example.com/x"}
	createObject(t, r.admin, leaving)
	if err := r.admin.Delete(ctx, leaving); err != nil {
		t.Fatal(err)
	}
	started := runningPod("default", "on-n1", "")
	if err := patchStatus(started, `{"status":{"phase":"Running","podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}],"hostIP":"192.0.2.9","startTime":"2026-01-01T00:00:00Z",
		"containerStatuses":[{"name":"c","image":"i","imageID":"i","ready":true,"restartCount":1,"state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}}}]}}`)(ctx, r.admin); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*corev1.Pod{started, leaving} {
		pod := api.Pod{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}
		k.Annotate(pod, map[string]string{netannotation.Status: "[]", netannotation.Confirmed: "{}"})
		k.PodEvent(pod, "Warning", "NetworkFailed", "text")
		apiserver.Eventually(t, "network-status of pod "+p.Name, func() error {
			if err := r.admin.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil || p.Annotations[netannotation.Status] != "[]" || p.Annotations[netannotation.Confirmed] != "{}" {
				return fmt.Errorf("%v %w", p.Annotations, err)
			}
			return nil
		})
	}
	k.NodeEvent("Warning", "Quarantined", "text")
	apiserver.Eventually(t, "events", func() error {
		return wantEvents(ctx, r.admin, 3, "Quarantined", "NetworkFailed")
	})
}

// changeWebhooks is an attack's change of a webhook configuration.
func changeWebhooks[T any, O interface {
	*T
	client.Object
}](change func(O)) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		o := O(new(T))
		if err := c.Get(ctx, client.ObjectKey{Name: "culvert"}, o); err != nil {
			return err
		}
		change(o)
		return c.Update(ctx, o)
	}
}

// controllerAttacks returns the writes that an attacker with the controller's token may try.
func controllerAttacks() []attack {
	const webhooks, cordon = "culvert-webhook-trust", "culvert-cordon"
	url, path, port, fail := "https://192.0.2.1/steal", "/elsewhere", int32(8443), admissionv1.Fail
	out := []attack{
		{"validating webhook elsewhere", webhooks, changeWebhooks(func(o *admissionv1.ValidatingWebhookConfiguration) {
			o.Webhooks[0].ClientConfig = admissionv1.WebhookClientConfig{URL: &url}
		})},
		{"validating rule for Secrets", webhooks, changeWebhooks(func(o *admissionv1.ValidatingWebhookConfiguration) {
			o.Webhooks[0].Rules[0].APIGroups, o.Webhooks[0].Rules[0].Resources = []string{""}, []string{"secrets"}
		})},
		{"validating webhook removed", webhooks, changeWebhooks(func(o *admissionv1.ValidatingWebhookConfiguration) { o.Webhooks = o.Webhooks[:1] })},
		{"finalizer of webhooks", webhooks, changeWebhooks(func(o *admissionv1.ValidatingWebhookConfiguration) { o.Finalizers = []string{"example.com/x"} })},
	}
	for name, change := range map[string]func(*admissionv1.MutatingWebhook){
		"elsewhere":          func(w *admissionv1.MutatingWebhook) { w.ClientConfig = admissionv1.WebhookClientConfig{URL: &url} },
		"to another Service": func(w *admissionv1.MutatingWebhook) { w.ClientConfig = atService("evil", nil, nil) },
		"to another path":    func(w *admissionv1.MutatingWebhook) { w.ClientConfig = atService("culvert-controller", &path, nil) },
		"to another port":    func(w *admissionv1.MutatingWebhook) { w.ClientConfig = atService("culvert-controller", nil, &port) },
		"by another name":    func(w *admissionv1.MutatingWebhook) { w.Name = "other.culvert.dev" },
		"for more resources": func(w *admissionv1.MutatingWebhook) { w.Rules[0].Resources = []string{"*"} },
		"for all pods":       func(w *admissionv1.MutatingWebhook) { w.MatchConditions = nil },
		"that blocks":        func(w *admissionv1.MutatingWebhook) { w.FailurePolicy = &fail },
		"for other namespaces": func(w *admissionv1.MutatingWebhook) {
			w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		},
		"that is waited for": func(w *admissionv1.MutatingWebhook) { w.TimeoutSeconds = new(int32); *w.TimeoutSeconds = 30 },
		"for more labels": func(w *admissionv1.MutatingWebhook) {
			w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		},
	} {
		out = append(out, attack{"mutating webhook " + name, webhooks, changeWebhooks(func(o *admissionv1.MutatingWebhookConfiguration) { change(&o.Webhooks[0]) })})
	}
	out = append(out,
		attack{"one more webhook", webhooks, changeWebhooks(func(o *admissionv1.MutatingWebhookConfiguration) {
			w := o.Webhooks[0].DeepCopy()
			w.Name = fmt.Sprintf("w%d.culvert.dev", len(o.Webhooks))
			o.Webhooks = append(o.Webhooks, *w)
		})},
		attack{"label of webhooks", webhooks, changeWebhooks(func(o *admissionv1.MutatingWebhookConfiguration) { o.Labels = map[string]string{"a": "b"} })},
		attack{"annotation of webhooks", webhooks, changeWebhooks(func(o *admissionv1.MutatingWebhookConfiguration) { o.Annotations = map[string]string{"a": "b"} })},
	)
	for name, body := range map[string]string{
		"label of a node":           `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`,
		"label of a node removed":   `{"metadata":{"labels":{"zone":null}}}`,
		"annotation of a node":      `{"metadata":{"annotations":{"example.com/ours":"1"}}}`,
		"annotation changed":        `{"metadata":{"annotations":{"example.com/theirs":"2"}}}`,
		"annotation removed":        `{"metadata":{"annotations":{"example.com/theirs":null}}}`,
		"finalizer of a node":       `{"metadata":{"finalizers":["example.com/x"]}}`,
		"taint of a node":           `{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`,
		"provider of a node":        `{"spec":{"providerID":"x://y"}}`,
		"addresses of a node":       `{"spec":{"podCIDR":"10.1.0.0/24","podCIDRs":["10.1.0.0/24"]}}`,
		"cordon with a taint":       `{"spec":{"unschedulable":true,"taints":[{"key":"b","effect":"NoExecute"}]}}`,
		"annotation like Culvert's": `{"metadata":{"annotations":{"evil.culvert.dev/a":"1"}}}`,
	} {
		out = append(out, attack{name, cordon, patchObject(newNode("n2", nil), body)})
	}
	const events = "culvert-controller-events"
	forged := reportedBy("forged", "culvert", "", "Pod", "on-n1")
	forged.ReportingController, forged.ReportingInstance, forged.Action = "kubelet", "n1", "A"
	return append(out,
		attack{"event of the kubelet", events, createAs(reportedBy("kubelet", "kubelet", "n1", "Pod", "on-n1"))},
		attack{"event with another reporter", events, createAs(forged)},
		attack{"event that keeps its namespace from being deleted", events, createAs(undeletable(reportedBy("finalizer", "culvert", "", "Pod", "on-n1")))},
		attack{"another's event changed", events, patchObject(reportedBy("theirs", "", "", "", ""), `{"message":"all is well","source":{"component":"culvert"}}`)},
	)
}

func atService(name string, path *string, port *int32) admissionv1.WebhookClientConfig {
	return admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: ownNamespace, Name: name, Path: path, Port: port}}
}

// I10: the controller's credential changes caBundle of Culvert's webhooks, the cordon
// and Culvert's annotations of nodes. Each attack with a real token is refused, and
// succeeds once the policies are gone. The API server accepts the controller's own
// writes.
func TestI10ControllerChangesWhatIsDocumentedOnly(t *testing.T) {
	r := newRealCluster(t)
	config := r.withToken(t, "culvert-controller", "n1")
	provesControllerWrites(t, r, config)
	c := connect(t, config)
	createObject(t, r.admin, reportedBy("theirs", "kubelet", "n1", "Pod", "on-n1"))
	for name, err := range map[string]error{ // RBAC grants none of these
		"make webhooks":   c.Create(t.Context(), &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}),
		"delete webhooks": c.Delete(t.Context(), &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "culvert"}}),
		"delete a policy": c.Delete(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "culvert-cordon"}}),
		"a node's status": patchStatus(newNode("n2", nil), `{"status":{"phase":"Running"}}`)(t.Context(), c),
		"delete a pod":    c.Delete(t.Context(), runningPod("default", "on-n1", "")),
		"delete a node":   c.Delete(t.Context(), newNode("n2", nil)),
		"another Secret":  c.Get(t.Context(), client.ObjectKey{Namespace: ownNamespace, Name: "other"}, &corev1.Secret{}),
		"a pod":           c.Create(t.Context(), runningPod("default", "mine", "n1")),
		"make a Service":  c.Create(t.Context(), webService(func(s *corev1.Service) { s.Name, s.UID = "mine", "" })),
		"delete Services": c.Delete(t.Context(), webService()),
	} {
		if !apierrors.IsForbidden(err) || strings.Contains(err.Error(), "ValidatingAdmissionPolicy '") {
			t.Errorf("I10: %s: %v", name, err)
		}
	}
	r.provePolicies(t, c, slices.Concat(controllerAttacks(), r.serviceAttacks(t), r.poolAttacks(t)))
}

// provesControllerWrites has the controller itself make its certificates, cordon a node, evict
// a pod and uncordon the node.
func provesControllerWrites(t *testing.T, r cluster, config *rest.Config) {
	t.Helper()
	port := reservePort(t)
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error {
		return Run(ctx, Config{
			Kube: config, Namespace: ownNamespace, Service: "culvert-controller", Secret: "culvert-controller-certificates", Webhooks: "culvert", WebhookPort: port,
			Metrics: "0", Health: "0", DrainNodes: 1, LeaderElection: true, Log: slog.New(slog.DiscardHandler),
		})
	})
	defer func() {
		cancel()
		requireEnd(t, g.Wait())
	}()
	apiserver.Eventually(t, "the webhooks' CA", func() error {
		m, v := &admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}
		for _, o := range []client.Object{m, v} {
			if err := r.admin.Get(ctx, client.ObjectKey{Name: "culvert"}, o); err != nil {
				return err
			}
		}
		if len(m.Webhooks[0].ClientConfig.CABundle) == 0 || len(v.Webhooks[1].ClientConfig.CABundle) == 0 {
			return fmt.Errorf("%v, %v", m.Webhooks[0].ClientConfig, v.Webhooks[1].ClientConfig)
		}
		return nil
	})
	leaving := runningPod("default", "leaving", "n1")
	createObject(t, r.admin, leaving)
	state := withVFs("n1", 7, []string{"default/leaving"}, nil)
	createObject(t, r.admin, state)
	apiserver.Eventually(t, "the node is cordoned and the pod evicted", func() error { return r.isCordoned(ctx, leaving, true) })
	state.Status.PFs[0].WantedVFs = &state.Status.PFs[0].NumVFs
	if err := r.admin.Update(ctx, state); err != nil {
		t.Fatal(err)
	}
	apiserver.Eventually(t, "the node is uncordoned", func() error { return r.isCordoned(ctx, leaving, false) })
	apiserver.Eventually(t, "events of the drain and of the leader", func() error {
		reasons := map[string]bool{}
		var events corev1.EventList
		err := r.admin.List(ctx, &events)
		for _, e := range events.Items {
			reasons[e.Reason] = true
		}
		for _, want := range []string{"DrainBegan", "Evicted", "DrainEnded", "LeaderElection"} {
			if !reasons[want] {
				return fmt.Errorf("no event %s among %v: %w", want, reasons, err)
			}
		}
		return nil
	})
}

func (r cluster) isCordoned(ctx context.Context, pod *corev1.Pod, want bool) error {
	n, p := &corev1.Node{}, &corev1.Pod{}
	if err := r.admin.Get(ctx, client.ObjectKey{Name: "n1"}, n); err != nil {
		return err
	}
	err := r.admin.Get(ctx, client.ObjectKeyFromObject(pod), p)
	if _, marked := n.Annotations[draining]; n.Spec.Unschedulable != want || marked != want || err == nil && p.DeletionTimestamp == nil {
		return fmt.Errorf("node %v %v, pod leaves %v %w", n.Spec, n.Annotations, p.DeletionTimestamp, err)
	}
	return nil
}
