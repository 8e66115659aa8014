//go:build lab

package controller

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/reasons"
	"github.com/culvert-net/culvert/test/apiserver"
)

// templateChart renders the chart as helm does before it installs or upgrades.
func templateChart(t *testing.T, args ...string) string {
	t.Helper()
	out, said := tryTemplate(t, args...)
	if said != "" {
		t.Fatalf("helm %v: %s", args, said)
	}
	return out
}

// tryTemplate renders the chart, or returns the error of helm.
func tryTemplate(t *testing.T, args ...string) (out, said string) {
	t.Helper()
	args = append([]string{"template", "culvert", "../../../dist/kubernetes/chart", "--namespace", "culvert-system", "--kube-version", "1.30.0"}, args...)
	cmd := exec.CommandContext(t.Context(), apiserver.Program(t, "helm", "helm"), args...)
	cmd.Env = append(os.Environ(), "KUBECACHEDIR="+t.TempDir()) // else helm uses what it cached about another server at that port
	var failed strings.Builder
	cmd.Stderr = &failed
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Sprintf("%v: %s", err, failed.String())
	}
	return string(text), ""
}

// isolationArgs returns the arguments of culvertd and of the controller by which they isolate
// namespaces.
func isolationArgs(t *testing.T, args ...string) map[string][]string {
	t.Helper()
	all := decodeObjects(t, []byte(templateChart(t, args...)))
	out := map[string][]string{}
	for name, pod := range map[string]corev1.PodSpec{
		"culvertd":           objectOf[appsv1.DaemonSet](t, all, "DaemonSet", "culvertd").Spec.Template.Spec,
		"culvert-controller": objectOf[appsv1.Deployment](t, all, "Deployment", "culvert-controller").Spec.Template.Spec,
	} {
		for _, arg := range pod.Containers[0].Args {
			if strings.HasPrefix(arg, "--namespace-isolation") || strings.HasPrefix(arg, "--global-namespaces") {
				out[name] = append(out[name], arg)
			}
		}
	}
	return out
}

// withServer returns the arguments with which helm asks the API server as its
// administrator.
func withServer(t *testing.T, s *apiserver.Server) []string {
	t.Helper()
	text, err := os.ReadFile(s.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(strings.ReplaceAll(string(text), `"token": "viewer"`, `"token": "admin"`)), 0o600); err != nil {
		t.Fatal(err)
	}
	apiserver.Eventually(t, "namespace kube-system", func() error { return s.Do(http.MethodGet, "/api/v1/namespaces/kube-system", "", nil) })
	return []string{"--dry-run=server", "--kubeconfig", kubeconfig}
}

// Namespace isolation is on wherever the chart is rendered, in a cluster that has a culvertd without
// isolation too, unless the administrator turns it off. culvertd and the controller get the same.
func TestChartIsolatesNamespaces(t *testing.T) {
	s := apiserver.New(t)
	server := withServer(t, s)
	check := func(what, on, global string, args ...string) {
		t.Helper()
		both := []string{"--global-namespaces=" + global, "--namespace-isolation=" + on}
		want := map[string][]string{"culvertd": both, "culvert-controller": both}
		if diff := cmp.Diff(want, isolationArgs(t, args...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	const global = "default,kube-system,culvert-system"
	off := []string{"--set", "node.namespaceIsolation=false", "--set", "node.globalNamespaces={a,b}"}
	check("without a cluster, as helm template and Argo CD render it", "true", global)
	check("without a cluster, turned off", "false", "a,b", off...)
	check("new install", "true", global, server...)
	s.Must(http.MethodPost, "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"culvert-system"}}`)
	s.Must(http.MethodPost, "/apis/apps/v1/namespaces/culvert-system/daemonsets", `{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"culvertd"},
		"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"culvertd","image":"x","args":["--kubernetes"]}]}}}}`)
	check("upgrade of a version without isolation", "true", global, server...)
	check("upgrade, turned off", "false", "a,b", append(server, off...)...)
}

// A value that no longer exists fails, and names the two choices: an upgrade with --reuse-values has
// the earlier chart's default auto. An absent value is the default.
func TestChartRefusesOtherIsolation(t *testing.T) {
	_, said := tryTemplate(t, "--set", "node.namespaceIsolation=auto")
	for _, want := range []string{`node.namespaceIsolation is "auto": `, "set it to true (", "or to false ("} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in %q", want, said)
		}
	}
	if got := isolationArgs(t, "--set", "node.namespaceIsolation=null")["culvertd"]; !slices.Contains(got, "--namespace-isolation=true") {
		t.Errorf("without a value: %q", got)
	}
}

// I9: a controller with isolation, on a real API server, adds neither a resource nor a node label of a
// closed network to a pod. For an open network it adds both, and the pod's files. A Service over such a network has the same message as one over a missing network.
func TestI9ControllerHidesNetworksOfOthers(t *testing.T) {
	s := apiserver.New(t)
	c := connect(t, s.Config())
	install(t, c, "Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
	createObject(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
	for name, admits := range map[string]string{"open": "default", "closed": "team"} {
		n := definitionOf("other", name, "intel.com/x")
		n.SetAnnotations(map[string]string{netannotation.ResourceName: "intel.com/x", netannotation.Namespaces: admits, netannotation.NodeSelector: "net-type=" + name})
		apiserver.Eventually(t, "network "+name, func() error { return client.IgnoreAlreadyExists(c.Create(t.Context(), n)) })
	}
	server, dir, port := newAuthority(t), t.TempDir(), reservePort(t)
	server.serve(dir)
	serveController(t, Config{Kube: asController(s.Config()), Metrics: "0", Webhooks: "culvert", WebhookPort: port, Certificates: dir, Isolation: isolation})

	hooks := installed[admissionv1.MutatingWebhookConfiguration](t, "MutatingWebhookConfiguration", "culvert")
	createObject(t, c, onlyPodsHook(hooks, port, server.pem))
	pages := corev1.ResourceList{"hugepages-1Gi": resource.MustParse("1Gi"), "memory": resource.MustParse("1Gi")}
	createPod := func(network string) (corev1.PodSpec, error) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Annotations: map[string]string{netannotation.Networks: network}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Limits: pages}}}}}
		err := c.Create(t.Context(), p, client.DryRunAll)
		return p.Spec, err
	}
	apiserver.Eventually(t, "the webhook serves a network that is open", func() error {
		spec, err := createPod("other/open")
		if n := spec.Containers[0].Resources.Limits["intel.com/x"]; n.Value() != 1 {
			return fmt.Errorf("%d devices: %w", n.Value(), err)
		}
		requirePodInfo(t, spec, "net-type=open")
		return nil
	})
	spec, err := createPod("other/closed")
	n := spec.Containers[0].Resources.Limits["intel.com/x"]
	if n.Value() != 0 || len(spec.NodeSelector) > 0 || len(spec.Volumes) > 0 || err != nil {
		t.Errorf("I9: of a closed network a pod gets %d devices, node labels %v, volumes %v; %v", n.Value(), spec.NodeSelector, spec.Volumes, err)
	}

	said := map[string]string{}
	for network, reason := range map[string]string{"open": reasons.Served, "closed": reasons.NetworkMissing, "missing": reasons.NetworkMissing} {
		svc := webService(over("other/"+network), func(s *corev1.Service) { s.Name, s.UID = network, "" })
		createObject(t, c, svc)
		apiserver.Eventually(t, "the condition of Service "+network, func() error {
			err := c.Get(t.Context(), client.ObjectKeyFromObject(svc), svc)
			if err != nil || len(svc.Status.Conditions) != 1 || svc.Status.Conditions[0].Reason != reason {
				return fmt.Errorf("%v: %w", svc.Status.Conditions, err)
			}
			return nil
		})
		said[network] = strings.ReplaceAll(svc.Status.Conditions[0].Message, network, "NAME")
	}
	if said["closed"] != said["missing"] {
		t.Errorf("I9: of a closed network %q, of a missing one %q", said["closed"], said["missing"])
	}
}

// requirePodInfo checks the nodeSelector of a pod, and its files about a container with huge pages of
// 1 GiB.
func requirePodInfo(t *testing.T, spec corev1.PodSpec, label string) {
	t.Helper()
	key, value, _ := strings.Cut(label, "=")
	var files []string
	for _, v := range spec.Volumes {
		if v.Name == podInfoVolume && v.DownwardAPI != nil {
			for _, item := range v.DownwardAPI.Items {
				files = append(files, item.Path)
			}
		}
	}
	c := spec.Containers[0]
	isNamed := slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == containerNameVariable && e.Value == c.Name })
	want := []string{"labels", "annotations", "hugepages_1G_request_c", "hugepages_1G_limit_c"}
	if diff := cmp.Diff(want, files); diff != "" || spec.NodeSelector[key] != value || !slices.ContainsFunc(c.VolumeMounts, isPodInfo) || !isNamed {
		t.Errorf("files (-want +got):\n%s\nnodeSelector %v, want %s; mounts %v; env %v", diff, spec.NodeSelector, label, c.VolumeMounts, c.Env)
	}
}
