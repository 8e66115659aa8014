package controller

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// scrapeJob is a scrape_config of Prometheus, as far as docs/kubernetes.md uses it
// (prometheus.io, Configuration, <scrape_config>). It is read strictly.
type scrapeJob struct {
	Name          string `json:"job_name"`
	Scheme        string `json:"scheme"`
	Authorization struct {
		CredentialsFile string `json:"credentials_file"`
	} `json:"authorization"`
	TLS struct {
		ServerName string `json:"server_name"`
		CAFile     string `json:"ca_file"`
	} `json:"tls_config"`
	Discovery []struct {
		Role       string `json:"role"`
		Namespaces struct {
			Names []string `json:"names"`
		} `json:"namespaces"`
	} `json:"kubernetes_sd_configs"`
	Relabel []struct {
		Source []string `json:"source_labels"`
		Regex  string   `json:"regex"`
		Action string   `json:"action"`
		Target string   `json:"target_label"`
	} `json:"relabel_configs"`
}

// documentedJob is the job of docs/kubernetes.md.
func documentedJob(t *testing.T) scrapeJob {
	t.Helper()
	page, err := os.ReadFile("../../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n- job_name:")
	text, _, found := strings.Cut(text, "```")
	if !found {
		t.Fatal("docs/kubernetes.md has no scrape job")
	}
	var jobs []scrapeJob
	if err := yaml.UnmarshalStrict([]byte("- job_name:"+text), &jobs); err != nil || len(jobs) != 1 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	return jobs[0]
}

// The scrape job of docs/kubernetes.md finds the port for metrics of the shipped controller's
// pods, and no other port. TestI10MetricsNeedAToken scrapes by it.
func TestDocumentedScrapeJobFindsTheController(t *testing.T) {
	job := documentedJob(t)
	controller := installed[appsv1.Deployment](t, "Deployment", "culvert-controller")
	service := installed[corev1.Service](t, "Service", "culvert-controller")
	if len(job.Discovery) != 1 || job.Discovery[0].Role != "pod" || !slices.Equal(job.Discovery[0].Namespaces.Names, []string{controller.Namespace}) {
		t.Errorf("discovery %+v", job.Discovery)
	}
	if want := service.Name + "." + service.Namespace + ".svc"; job.Scheme != "https" || job.TLS.ServerName != want || path.Base(job.TLS.CAFile) != caCert {
		t.Errorf("%s %+v, want the server name %s and the file %s of the Secret", job.Scheme, job.TLS, want, caCert)
	}
	if job.Authorization.CredentialsFile != "/var/run/secrets/kubernetes.io/serviceaccount/token" {
		t.Errorf("token %s", job.Authorization.CredentialsFile)
	}
	if len(job.Relabel) != 2 || job.Relabel[0].Action != "keep" || job.Relabel[1].Target != "instance" ||
		!slices.Equal(job.Relabel[0].Source, []string{"__meta_kubernetes_pod_label_app_kubernetes_io_name", "__meta_kubernetes_pod_container_port_name"}) {
		t.Fatalf("relabelling %+v", job.Relabel)
	}
	kept := regexp.MustCompile("^(?:" + job.Relabel[0].Regex + ")$") // as Prometheus anchors it
	pod := controller.Spec.Template
	var ports []int32
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if kept.MatchString(pod.Labels["app.kubernetes.io/name"] + ";" + p.Name) {
				ports = append(ports, p.ContainerPort)
			}
		}
	}
	if !slices.Equal(ports, []int32{8080}) {
		t.Errorf("the job scrapes the ports %v", ports)
	}
}
