//go:build lab

package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/culvert-net/culvert/test/apiserver"
)

// operator are the arguments by which helm template takes a cluster for one with the Prometheus operator.
var operator = []string{"--api-versions", "monitoring.coreos.com/v1"}

// renderMonitoring renders the chart with monitoring, and returns the text and its objects by kind and name.
func renderMonitoring(t *testing.T, values ...string) (string, map[string]*unstructured.Unstructured) {
	t.Helper()
	text := template(t, slices.Concat(operator, []string{"--set", strings.Join(append(values, "monitoring.enabled=true"), ",")})...)
	all := map[string]*unstructured.Unstructured{}
	for _, o := range decode(t, text) {
		all[o.GetKind()+" "+o.GetName()] = o
	}
	return text, all
}

// Without the value the chart has nothing for Prometheus. With it helm says what a cluster without the
// operator needs, and that the controller has to serve metrics.
func TestMonitoringIsRefused(t *testing.T) {
	if text := template(t, operator...); strings.Contains(text, "monitoring.coreos.com") || strings.Contains(text, "grafana") || strings.Contains(text, "9810") {
		t.Error("the chart serves Prometheus by default")
	}
	for says, args := range map[string][]string{
		"install the operator first":            {"--set", "monitoring.enabled=true"},
		"needs controller.metrics.enabled: set": append([]string{"--set", "monitoring.enabled=true,controller.metrics.enabled=false"}, operator...),
	} {
		if _, err := tryTemplate(t, chart, args...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: the error does not say %q: %v", args, says, err)
		}
	}
}

// podMonitor is a PodMonitor, as far as the test reads it.
type podMonitor struct {
	Spec struct {
		JobLabel  string
		Selector  struct{ MatchLabels map[string]string }
		Endpoints []struct {
			Port, Scheme string
			HonorLabels  bool
			TLSConfig    struct {
				ServerName string
				CA         struct{ Secret struct{ Name, Key string } }
			}
			Relabelings []struct {
				SourceLabels []string
				TargetLabel  string
			}
		} `json:"podMetricsEndpoints"`
	}
}

// The PodMonitors select the pods of culvertd and of the controller, by a port that these have. culvertd
// listens at that port of the node's address alone, or at the address that node.metrics.address names.
func TestMonitorsFindThePods(t *testing.T) {
	for values, address := range map[string]string{
		"monitoring.labels.release=prometheus":                                 "[$(NODE_ADDRESS)]:9810",
		"node.metrics.address=:9999":                                           ":9999",
		"node.metrics.address=[::1]:9999,controller.certificates=cert-manager": "[::1]:9999",
	} {
		text, all := renderMonitoring(t, values)
		w := findWorkloads(t, text)
		for name, pod := range map[string]corev1.PodTemplateSpec{"culvertd": w.node.Spec.Template, "culvert-controller": w.controller.Spec.Template} {
			var m podMonitor
			convertInto(t, all["PodMonitor "+name], &m)
			port := slices.IndexFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == m.Spec.Endpoints[0].Port })
			if len(m.Spec.Endpoints) != 1 || port < 0 {
				t.Fatalf("%s: the PodMonitor scrapes %+v, and the pod has the ports %+v", name, m.Spec.Endpoints, pod.Spec.Containers[0].Ports)
			}
			for key, value := range m.Spec.Selector.MatchLabels {
				if pod.Labels[key] != value {
					t.Errorf("%s: the PodMonitor wants the label %s=%s, and the pod has %s", name, key, value, pod.Labels[key])
				}
			}
			if job := pod.Labels[m.Spec.JobLabel]; job != name {
				t.Errorf("the job of %s is %q, and the rules ask for its name", name, job)
			}
			if want := map[string]bool{"culvertd": true}[name]; m.Spec.Endpoints[0].HonorLabels != want {
				t.Errorf("%s: honorLabels %t", name, !want)
			}
			if args := pod.Spec.Containers[0].Args; name == "culvertd" && (!slices.Contains(args, "--metrics="+address) ||
				!strings.HasSuffix(address, fmt.Sprint(":", pod.Spec.Containers[0].Ports[port].ContainerPort))) {
				t.Errorf("%s: culvertd has the flags %q, and the port %+v", values, args, pod.Spec.Containers[0].Ports[port])
			}
		}
		if release := all["PodMonitor culvertd"].GetLabels()["release"]; strings.Contains(values, "release") && (release != "prometheus" || all["PrometheusRule culvert"].GetLabels()["release"] != release) {
			t.Errorf("%s: the label is %q", values, release)
		}
	}
}

// The controller is scraped by its Service's name in the certificate, whose CA is in the Secret of the
// program that makes the certificate.
func TestMonitorOfTheControllerTrustsItsCA(t *testing.T) {
	for certificates, secret := range map[string]string{"own": "culvert-controller-certificates", "cert-manager": "culvert-controller-cert-manager"} {
		_, all := renderMonitoring(t, "controller.certificates="+certificates)
		var m podMonitor
		convertInto(t, all["PodMonitor culvert-controller"], &m)
		e := m.Spec.Endpoints[0]
		if e.Scheme != "https" || e.TLSConfig.ServerName != "culvert-controller.culvert-system.svc" || e.TLSConfig.CA.Secret.Name != secret || e.TLSConfig.CA.Secret.Key != "ca.crt" {
			t.Errorf("%s: %+v", certificates, e)
		}
	}
}

func convertInto(t *testing.T, o *unstructured.Unstructured, into any) {
	t.Helper()
	text, err := o.MarshalJSON()
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The chart has the alerts and the dashboard of the tree, and no other text of them.
func TestMonitoringHasTheFilesOfTheTree(t *testing.T) {
	_, all := renderMonitoring(t)
	var want map[string]any
	rules, err := os.ReadFile(top + "/dist/prometheus/culvert-rules.yaml")
	if err == nil {
		err = yaml.Unmarshal(rules, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, all["PrometheusRule culvert"].Object["spec"]); diff != "" {
		t.Errorf("the PrometheusRule (-file +chart):\n%s", diff)
	}
	dashboard, err := os.ReadFile(top + "/dist/grafana/culvert.json")
	if err != nil {
		t.Fatal(err)
	}
	var m corev1.ConfigMap
	convertInto(t, all["ConfigMap culvert-dashboard"], &m)
	if diff := cmp.Diff(string(dashboard), m.Data["culvert.json"]); diff != "" || m.Labels["grafana_dashboard"] != "1" {
		t.Errorf("labels %v (-file +chart):\n%s", m.Labels, diff)
	}
}

// helm upgrade refuses monitoring in a cluster without the operator, and adds it beside the operator's
// CRDs. By these the API server takes each object strictly, and refuses a field that does not exist.
func TestMonitoringBesideTheOperator(t *testing.T) {
	s := apiserver.New(t)
	kubeconfig := s.AdminKubeconfig()
	if _, err := helm(t, kubeconfig, "install", "culvert", chart, "--namespace", "culvert-system", "--create-namespace"); err != nil {
		t.Fatal(err)
	}
	upgrade := []string{"upgrade", "culvert", chart, "--namespace", "culvert-system", "--reset-then-reuse-values", "--set", "monitoring.enabled=true"} // as docs/alerts.md
	if _, err := helm(t, kubeconfig, upgrade...); err == nil || !strings.Contains(err.Error(), "install the operator first") {
		t.Errorf("helm upgrade in a cluster without the operator: %v", err)
	}
	for _, kind := range []string{"podmonitors", "prometheusrules"} {
		kubectl(t, kubeconfig, "create", "-f", apiserver.Program(t, "prometheus-operator", "monitoring.coreos.com_"+kind+".yaml"))
		apiserver.Eventually(t, kind, func() error { return kubectlCommand(t, kubeconfig, "get", kind).Run() })
	}
	if _, err := helm(t, kubeconfig, upgrade...); err != nil {
		t.Fatal(err)
	}
	_, all := renderMonitoring(t)
	var ours []string
	for name, o := range all {
		if !strings.HasPrefix(o.GetAPIVersion(), "monitoring.coreos.com/") {
			continue
		}
		ours = append(ours, name)
		file := writeFile(t, "object.yaml", marshal(t, o.Object))
		kubectl(t, kubeconfig, "apply", "--server-side", "--force-conflicts", "--validate=strict", "--dry-run=server", "-f", file)
	}
	slices.Sort(ours)
	if diff := cmp.Diff([]string{"PodMonitor culvert-controller", "PodMonitor culvertd", "PrometheusRule culvert"}, ours); diff != "" {
		t.Errorf("objects of the operator (-want +got):\n%s", diff)
	}
	wrong := all["PodMonitor culvertd"].DeepCopy()
	wrong.Object["spec"].(map[string]any)["podMetricsEndpoint"] = []any{}
	requireRefused(t, kubeconfig, writeFile(t, "wrong.yaml", marshal(t, wrong.Object)), ".spec.podMetricsEndpoint: field not declared")
}

// requireRefused checks that the API server refuses the object of a file with these words.
func requireRefused(t *testing.T, kubeconfig, file, words string) {
	t.Helper()
	cmd := kubectlCommand(t, kubeconfig, "apply", "--server-side", "--force-conflicts", "--validate=strict", "--dry-run=server", "-f", file)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), words) {
		t.Errorf("kubectl apply of %s: %v: %s", filepath.Base(file), err, out)
	}
}

// documentedJob is a scrape job for a Prometheus without the operator.
type documentedJob struct {
	Name        string `json:"job_name"`
	Scheme      string
	HonorLabels bool `json:"honor_labels"`
	TLS         struct {
		ServerName string `json:"server_name"`
	} `json:"tls_config"`
	Discovery []struct {
		Role       string
		Namespaces struct{ Names []string }
	} `json:"kubernetes_sd_configs"`
	Relabel []struct {
		Source        []string `json:"source_labels"`
		Regex, Action string
		Target        string `json:"target_label"`
	} `json:"relabel_configs"`
}

// The scrape jobs of the pages do what the PodMonitors do: the lab's Prometheus uses them
// (test/kubernetes TestPrometheus).
func TestDocumentedJobsAreThoseOfTheMonitors(t *testing.T) {
	_, all := renderMonitoring(t)
	for page, name := range map[string]string{"docs/alerts.md": "culvertd", "docs/kubernetes.md": "culvert-controller"} {
		text, err := os.ReadFile(filepath.Join(top, page))
		if err != nil {
			t.Fatal(err)
		}
		_, block, _ := strings.Cut(string(text), "```yaml\n- job_name:")
		block, _, _ = strings.Cut(block, "```")
		var jobs []documentedJob
		if err := yaml.Unmarshal([]byte("- job_name:"+block), &jobs); err != nil || len(jobs) != 1 || len(jobs[0].Relabel) != 2 {
			t.Fatalf("%s: %+v, %v", page, jobs, err)
		}
		var m podMonitor
		convertInto(t, all["PodMonitor "+name], &m)
		job, e := jobs[0], m.Spec.Endpoints[0]
		got := fmt.Sprintln(job.Name, job.Scheme, job.HonorLabels, job.TLS.ServerName, job.Discovery, job.Relabel[0], job.Relabel[1].Source, job.Relabel[1].Target)
		want := fmt.Sprintln(m.Spec.Selector.MatchLabels["app.kubernetes.io/name"], e.Scheme, e.HonorLabels, e.TLSConfig.ServerName, "[{pod {[culvert-system]}}]",
			fmt.Sprintf("{[__meta_kubernetes_pod_label_app_kubernetes_io_name __meta_kubernetes_pod_container_port_name] %s;%s keep }", name, e.Port), e.Relabelings[0].SourceLabels, e.Relabelings[0].TargetLabel)
		if got != want {
			t.Errorf("%s: the job is\n%s, and the PodMonitor of %s is\n%s", page, got, name, want)
		}
	}
}
