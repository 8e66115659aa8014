//go:build lab

package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/test/apiserver"
)

// The chart gives culvertd and the controller the same networks of every pod. A real API server then
// calls the webhook for pods without annotations, except for those of a system namespace and of the
// host's network. The controller of this test would serve these too.
func TestChartGivesEveryPodNetworks(t *testing.T) {
	all := requireEveryPodArgs(t, "a/b,c", "infra/fast", "system,culvert-system",
		"--set", "node.defaultNetworks={infra/fast}", "--set", "node.systemNamespaces={system}", "--set", "controller.networkResourceNameKeys={a/b,c}")
	// An upgrade with --reuse-values has no value of an earlier chart.
	requireEveryPodArgs(t, netannotation.ResourceName, "", "kube-system,culvert-system",
		"--set", "node.defaultNetworks=null", "--set", "node.systemNamespaces=null", "--set", "controller.networkResourceNameKeys=null")

	s := apiserver.New(t)
	c := connect(t, s.Config())
	install(t, c, "Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
	for _, name := range []string{"infra", "system"} {
		createObject(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	apiserver.Eventually(t, "the network", func() error {
		return client.IgnoreAlreadyExists(c.Create(t.Context(), definitionOf("infra", "fast", "intel.com/x")))
	})
	everyPod, err := netannotation.ParseEveryPod([]string{"infra/fast"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	server, dir, port := newAuthority(t), t.TempDir(), reservePort(t)
	server.serve(dir)
	serveController(t, Config{Kube: asController(s.Config()), Metrics: "0", Webhooks: "culvert", WebhookPort: port, Certificates: dir, EveryPod: everyPod, Isolation: netannotation.Isolation{On: true}})
	hooks := objectOf[admissionv1.MutatingWebhookConfiguration](t, all, "MutatingWebhookConfiguration", "culvert")
	createObject(t, c, onlyPodsHook(hooks, port, server.pem))
	createPod := func(namespace string, hostNetwork bool) (int64, error) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}, Spec: corev1.PodSpec{HostNetwork: hostNetwork, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		err := c.Create(t.Context(), p, client.DryRunAll)
		n := p.Spec.Containers[0].Resources.Limits["intel.com/x"]
		return n.Value(), err
	}
	apiserver.Eventually(t, "a pod that asks for nothing gets the network's resource", func() error {
		if n, err := createPod("default", false); n != 1 {
			return fmt.Errorf("%d devices: %w", n, err)
		}
		return nil
	})
	for namespace, hostNetwork := range map[string]bool{"system": false, "culvert-system": false, "default": true} {
		if n, err := createPod(namespace, hostNetwork); n != 0 || err != nil {
			t.Errorf("a pod of %s, host network %t: %d devices, %v", namespace, hostNetwork, n, err)
		}
	}
}

// requireEveryPodArgs renders the chart, and checks the arguments of both programs about networks of
// every pod, and those of the controller about keys of resources.
func requireEveryPodArgs(t *testing.T, keys, networks, system string, args ...string) []*unstructured.Unstructured {
	t.Helper()
	all := decodeObjects(t, []byte(templateChart(t, args...)))
	isOther := func(arg string) bool {
		return !strings.HasPrefix(arg, "--default-networks") && !strings.HasPrefix(arg, "--system-namespaces") && !strings.HasPrefix(arg, "--network-resource")
	}
	both := []string{"--default-networks=" + networks, "--system-namespaces=" + system}
	got := slices.DeleteFunc(objectOf[appsv1.DaemonSet](t, all, "DaemonSet", "culvertd").Spec.Template.Spec.Containers[0].Args, isOther)
	if d := cmp.Diff(both, got); d != "" {
		t.Errorf("culvertd (-want +got):\n%s", d)
	}
	got = slices.DeleteFunc(objectOf[appsv1.Deployment](t, all, "Deployment", "culvert-controller").Spec.Template.Spec.Containers[0].Args, isOther)
	if d := cmp.Diff(append([]string{"--network-resource-name-keys=" + keys}, both...), got); d != "" {
		t.Errorf("the controller (-want +got):\n%s", d)
	}
	return all
}

// onlyPodsHook returns the webhook of pods alone, at a port of this host. The API server refuses pods
// for which it fails.
func onlyPodsHook(hooks *admissionv1.MutatingWebhookConfiguration, port int, ca []byte) *admissionv1.MutatingWebhookConfiguration {
	i := slices.IndexFunc(hooks.Webhooks, func(w admissionv1.MutatingWebhook) bool { return w.Name == "pods.culvert.dev" })
	url, always := fmt.Sprintf("https://localhost:%d/pods", port), admissionv1.Fail
	hooks.Webhooks = hooks.Webhooks[i : i+1]
	hooks.Webhooks[0].ClientConfig, hooks.Webhooks[0].FailurePolicy = admissionv1.WebhookClientConfig{URL: &url, CABundle: ca}, &always
	return hooks
}
