//go:build lab

package controller

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/test/apiserver"
)

// renderChart returns the objects of the Helm chart with values.
func renderChart(t *testing.T, values ...string) []*unstructured.Unstructured {
	t.Helper()
	args := []string{"template", "culvert", "../../../dist/kubernetes/chart", "--namespace", "culvert-system", "--kube-version", "1.30.0", "--set", "createNamespace=true"}
	for _, v := range values {
		args = append(args, "--set", v)
	}
	out, err := exec.CommandContext(t.Context(), apiserver.Program(t, "helm", "helm"), args...).Output()
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		t.Fatalf("helm %s: %v: %s", strings.Join(args, " "), err, failed.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	return decodeObjects(t, out)
}

// asController is a connection to the cluster with the rights of the controller.
func asController(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:culvert-system:culvert-controller", Groups: []string{"system:serviceaccounts", "system:authenticated"},
	}
	return c
}

// serveController runs a controller until the test ends.
func serveController(t *testing.T, c Config) {
	t.Helper()
	c.Namespace, c.Health, c.Log = "culvert-system", "0", slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return Run(ctx, c) })
	t.Cleanup(func() {
		cancel()
		requireEnd(t, g.Wait())
	})
}

// reservePort returns a port that no other test takes.
func reservePort(t *testing.T) int {
	t.Helper()
	port, err := strconv.Atoi(apiserver.ReservePort(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// requireEnd fails the test unless a controller ended without an error. On a busy machine it may
// not end in its grace period.
func requireEnd(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, context.DeadlineExceeded) {
		t.Logf("the controller ends late: %v", err)
	} else if err != nil {
		t.Errorf("the controller: %v", err)
	}
}

// I10: the controller's metrics need a token whose user may get /metrics, and are not
// served without TLS.
func TestI10MetricsNeedAToken(t *testing.T) {
	config := apiServer(t)
	c, err := client.New(config, client.Options{Scheme: Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	install(t, c, "Namespace", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
	address := fmt.Sprintf("127.0.0.1:%d", reservePort(t))
	serveController(t, Config{
		Kube: asController(config), Metrics: address,
		Service: "culvert-controller", Secret: "culvert-controller-certificates", Webhooks: "culvert", WebhookPort: reservePort(t),
	})
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	get := func(scheme, token string) (code int, body string, err error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+address+"/metrics", nil)
		if err != nil {
			return 0, "", err
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := web.Do(req)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text), err
	}
	want := func(scheme, token string, want int) {
		t.Helper()
		if code, body, err := get(scheme, token); err != nil || code != want || want != http.StatusOK && strings.Contains(body, "rest_client") {
			t.Errorf("I10: %s, token %q: %d %v: %.100s, want %d", scheme, token, code, err, body, want)
		}
	}
	apiserver.Eventually(t, "metrics are served", func() error { _, _, err := get("https", ""); return err })
	want("https", "", http.StatusUnauthorized)
	want("https", "unknown", http.StatusUnauthorized)
	want("https", apiserver.Viewer, http.StatusForbidden)
	want("http", apiserver.Viewer, http.StatusBadRequest)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "culvert-metrics"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: apiserver.Viewer}},
	}
	if err := c.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	apiserver.Eventually(t, "the right to get metrics", func() error {
		if code, body, err := get("https", apiserver.Viewer); err != nil || code != http.StatusOK || !strings.Contains(body, "rest_client") || !strings.Contains(body, `culvert_nodes{state="ready"} 0`) {
			return fmt.Errorf("%d %w: %.100s", code, err, body)
		}
		return nil
	})
	secret := &corev1.Secret{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "culvert-system", Name: "culvert-controller-certificates"}, secret); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret.Data[caCert])
	job := documentedJob(t) // a scrape as docs/kubernetes.md has it
	web = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{ServerName: job.TLS.ServerName, RootCAs: roots}}}
	want(job.Scheme, apiserver.Viewer, http.StatusOK)
}

// admissionConfig writes the files by which an API server shows webhooks a certificate.
func admissionConfig(t *testing.T, cert, key []byte) (path string) {
	t.Helper()
	dir := t.TempDir()
	kubeconfig := map[string]any{"apiVersion": "v1", "kind": "Config", "users": []any{map[string]any{
		"name": "*", "user": map[string]any{"client-certificate-data": cert, "client-key-data": key},
	}}}
	var plugins []any
	for _, name := range []string{"ValidatingAdmissionWebhook", "MutatingAdmissionWebhook"} {
		plugins = append(plugins, map[string]any{"name": name, "configuration": map[string]any{
			"apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": dir + "/kubeconfig",
		}})
	}
	for name, content := range map[string]any{
		"kubeconfig": kubeconfig,
		"admission":  map[string]any{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins},
	} {
		text, err := json.Marshal(content)
		if err := errors.Join(err, os.WriteFile(filepath.Join(dir, name), text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir + "/admission"
}

// I10: with the files of cert-manager the controller serves its webhooks without a
// right to change webhook configurations or to read Secrets. It notices that the files
// are renewed. With --client-ca it serves the API server, and no client without its
// certificate.
func TestI10WebhooksServeTheAPIServerAlone(t *testing.T) {
	server, caller := newAuthority(t), newAuthority(t)
	cert, key := caller.client()
	s := apiserver.New(t, "--admission-control-config-file", admissionConfig(t, cert, key))
	s.CRDs()
	c, err := client.New(s.Config(), client.Options{Scheme: Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	all := renderChart(t, "controller.certificates=cert-manager", "controller.clientCA=api")
	create(t, c, all, "Namespace", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
	dir := t.TempDir()
	clientCA := filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(clientCA, caller.pem, 0o600); err != nil {
		t.Fatal(err)
	}
	first, port := server.serve(dir), reservePort(t)
	serveController(t, Config{Kube: asController(s.Config()), Metrics: "0", Webhooks: "culvert", WebhookPort: port, Certificates: dir, ClientCA: clientCA})

	hooks := objectOf[admissionv1.ValidatingWebhookConfiguration](t, all, "ValidatingWebhookConfiguration", "culvert")
	always := admissionv1.Fail
	for i, path := range map[int]string{0: "networks", 1: "nodepolicies", 3: "claims"} {
		url := fmt.Sprintf("https://localhost:%d/%s", port, path)
		hooks.Webhooks[i].ClientConfig, hooks.Webhooks[i].FailurePolicy = admissionv1.WebhookClientConfig{URL: &url, CABundle: server.pem}, &always
	}
	if err := c.Create(t.Context(), hooks); err != nil {
		t.Fatal(err)
	}
	apiserver.Eventually(t, "the webhook answers the API server", func() error {
		p := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.NodePolicySpec{Pools: []v1alpha1.Pool{{Name: "a-b"}, {Name: "a_b"}}}}
		if err := c.Create(t.Context(), p, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "is culvert.dev/a-b as pools[0] to a container") {
			return fmt.Errorf("NodePolicy: %w", err)
		}
		return nil
	})
	checkClaimsWebhook(t, c)

	address, roots := fmt.Sprintf("127.0.0.1:%d", port), x509.NewCertPool()
	roots.AddCert(server.cert)
	pairOf := func(cert, key []byte) tls.Certificate {
		p, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if _, err := shakeHands(address, roots); err == nil {
		t.Error("I10: a client without a certificate is served")
	}
	if _, err := shakeHands(address, roots, pairOf(newAuthority(t).client())); err == nil {
		t.Error("I10: a client with a certificate of another CA is served")
	}
	before, err := shakeHands(address, roots, pairOf(cert, key))
	if err != nil || !slices.Equal(encode(before), first) {
		t.Errorf("the API server's certificate: %v", err)
	}
	second := server.serve(dir)
	apiserver.Eventually(t, "the renewed certificate is served", func() error {
		if now, err := shakeHands(address, roots, pairOf(cert, key)); err != nil || !slices.Equal(encode(now), second) {
			return fmt.Errorf("the earlier one is: %w", err)
		}
		return nil
	})
	refusesCertificates(t, s.Config())
}

// checkClaimsWebhook has the API server ask about configurations of claims: it refuses a wrong one of Culvert's in
// each kind, and asks nothing about one of another driver.
func checkClaimsWebhook(t *testing.T, c client.Client) {
	t.Helper()
	for _, driver := range []string{"culvert.dev", "gpu.example.com"} {
		opaque := resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: driver, Parameters: runtime.RawExtension{
			Raw: []byte(`{"apiVersion":"culvert.dev/v1alpha1","kind":"VFConfig","vlna":7}`),
		}}}
		spec := resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{{Name: "vf", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "vf", AllocationMode: "ExactCount", Count: 1}}},
			Config:   []resourcev1.DeviceClaimConfiguration{{DeviceConfiguration: opaque}},
		}}
		meta := metav1.ObjectMeta{Namespace: "default", Name: "c"}
		for _, o := range []client.Object{
			&resourcev1.ResourceClaim{ObjectMeta: meta, Spec: spec},
			&resourcev1.ResourceClaimTemplate{ObjectMeta: meta, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: spec}},
			&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: resourcev1.DeviceClassSpec{Config: []resourcev1.DeviceClassConfiguration{{DeviceConfiguration: opaque}}}},
		} {
			err := c.Create(t.Context(), o, client.DryRunAll)
			if refused := err != nil && strings.Contains(err.Error(), "opaque.parameters: vlna: did you mean vlan?"); refused != (driver == "culvert.dev") || !refused && err != nil {
				t.Errorf("%T with a configuration for %s: %v", o, driver, err)
			}
		}
	}
}

// refusesCertificates makes the calls that the API server must refuse to a controller with
// cert-manager's certificates.
func refusesCertificates(t *testing.T, config *rest.Config) {
	t.Helper()
	c, err := client.New(asController(config), client.Options{Scheme: Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "culvert-system", Name: "culvert-controller-certificates"}}
	for name, err := range map[string]error{
		"change webhooks":       c.Update(t.Context(), &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "culvert"}}),
		"change other webhooks": c.Update(t.Context(), &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "culvert"}}),
		"read a Secret":         c.Get(t.Context(), client.ObjectKeyFromObject(secret), secret),
		"make a Secret":         c.Create(t.Context(), secret),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("I10: %s: %v", name, err)
		}
	}
}

// The chart has cert-manager issue the certificate for the Service's names and write its CA
// into both webhook configurations; the files are mounted where the controller's flags say.
func TestChartWithCertManager(t *testing.T) {
	all := renderChart(t, "controller.certificates=cert-manager", "controller.clientCA=api-ca")
	type certificate struct {
		Spec struct {
			SecretName string   `json:"secretName"`
			DNSNames   []string `json:"dnsNames"`
			IssuerRef  struct {
				Name string `json:"name"`
			} `json:"issuerRef"`
		} `json:"spec"`
	}
	issued := objectOf[certificate](t, all, "Certificate", "culvert-controller").Spec
	names := []string{"culvert-controller.culvert-system.svc", "culvert-controller.culvert-system.svc.cluster.local"}
	if diff := cmp.Diff(names, issued.DNSNames); diff != "" || issued.IssuerRef.Name != "culvert-ca" {
		t.Errorf("issuer %s; -want +got:\n%s", issued.IssuerRef.Name, diff)
	}
	objectOf[certificate](t, all, "Issuer", "culvert-ca")
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		if from := objectOf[metav1.PartialObjectMetadata](t, all, kind, "culvert").Annotations["cert-manager.io/inject-ca-from"]; from != "culvert-system/culvert-controller" {
			t.Errorf("%s gets the CA of %q", kind, from)
		}
	}
	pod := objectOf[appsv1.Deployment](t, all, "Deployment", "culvert-controller").Spec.Template.Spec
	mounts := map[string]string{}
	for _, m := range pod.Containers[0].VolumeMounts {
		mounts[m.Name] = m.MountPath
	}
	for _, v := range pod.Volumes {
		switch {
		case v.Secret != nil && v.Secret.SecretName == issued.SecretName:
			mounts["--certificates="+mounts[v.Name]] = v.Name
		case v.ConfigMap != nil && v.ConfigMap.Name == "api-ca":
			mounts["--client-ca="+mounts[v.Name]+"/ca.crt"] = v.Name
		}
	}
	for _, arg := range []string{"--certificates=/etc/culvert-controller/certificates", "--client-ca=/etc/culvert-controller/client-ca/ca.crt"} {
		if !slices.Contains(pod.Containers[0].Args, arg) || mounts[arg] == "" {
			t.Errorf("%v, with mounts %v: want %s", pod.Containers[0].Args, mounts, arg)
		}
	}
	for _, o := range renderChart(t, "controller.certificates=cert-manager", "controller.issuer.name=corporate", "controller.issuer.kind=ClusterIssuer") {
		if o.GetKind() == "Issuer" || o.GetName() == "culvert-ca" {
			t.Errorf("%s %s beside an issuer of the administrator's", o.GetKind(), o.GetName())
		}
	}
}

// The chart leaves NetworkPolicies out where they are not wanted, and a cluster takes them
// with other ports of the API server.
func TestChartWithNetworkPolicies(t *testing.T) {
	for _, o := range renderChart(t, "networkPolicies.enabled=false") {
		if o.GetKind() == "NetworkPolicy" {
			t.Errorf("there is NetworkPolicy %s", o.GetName())
		}
	}
	c, err := client.New(apiServer(t), client.Options{Scheme: Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	all := renderChart(t, "networkPolicies.apiServerPorts={7445}")
	create(t, c, all, "Namespace", "NetworkPolicy")
	if p := objectOf[networkingv1.NetworkPolicy](t, all, "NetworkPolicy", "culvert-controller").Spec.Egress[0].Ports; len(p) != 1 || p[0].Port.IntValue() != 7445 {
		t.Errorf("toward the API server: %v", p)
	}
}
