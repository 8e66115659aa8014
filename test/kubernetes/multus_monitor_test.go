//go:build kubernetes

package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/cluster"
	"github.com/culvert-net/culvert/lab/parts"
	"github.com/culvert-net/culvert/test/prometheus"
)

// installOperatorCRDs gives a cluster the CRDs of the Prometheus operator, without which the chart
// refuses monitoring.
func installOperatorCRDs(ctx context.Context, c *cluster.Cluster) error {
	dir, err := parts.Find(ctx, top, "prometheus-operator", quiet)
	if err != nil {
		return err
	}
	for _, kind := range []string{"podmonitors", "prometheusrules"} {
		if _, err := c.Kubectl(ctx, "create", "-f", filepath.Join(dir, "monitoring.coreos.com_"+kind+".yaml")); err != nil {
			return err
		}
		// The API server serves a new kind some time later. A new CRD has no conditions for kubectl wait.
		_, err := c.Kubectl(ctx, "get", kind)
		for end := time.Now().Add(soon); err != nil; _, err = c.Kubectl(ctx, "get", kind) {
			if time.Now().After(end) {
				return err
			}
			time.Sleep(time.Second)
		}
	}
	return nil
}

// monitor is a Prometheus beside the control plane, which scrapes the cluster.
type monitor struct {
	prometheus.Server
	jobs []*scrapeJob
}

// scrapeJob is a scrape job of a page. file has its targets, in place of its discovery: Prometheus of
// Debian is built without kubernetes_sd_configs.
type scrapeJob struct {
	namespaces []string
	file       string
	config     map[string]any
}

// startPrometheus starts Prometheus with the scrape jobs of the documents, one of the API server, and the
// rules, whose times the command of docs/alerts.md makes short. It ends with the test.
func startPrometheus(t *testing.T) *monitor {
	t.Helper()
	dir := t.TempDir()
	m := &monitor{jobs: []*scrapeJob{documentedJob(t, dir, "docs/alerts.md"), documentedJob(t, dir, "docs/kubernetes.md")}}
	if err := m.writeTargets(); err != nil {
		t.Fatal(err)
	}
	const name, address = "prometheus", "127.0.0.1:9090"
	argv := append([]string{prometheus.Program(t, top)}, prometheus.WriteConfig(t, top, dir, m.jobs[0].config, m.jobs[1].config, serverJob(t, dir))...)
	if err := k8s.Lab.Run(t.Context(), lab.Program{Name: name, Argv: append(argv, "--web.listen-address="+address)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			said, _ := os.ReadFile(k8s.Lab.ProgramLog(name))
			t.Logf("Prometheus: %s", said[max(0, len(said)-4000):])
		}
		if err := k8s.Lab.End(context.Background(), name); err != nil {
			t.Error(err)
		}
	})
	relayed, err := k8s.Lab.Relay(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	m.URL = "http://" + relayed.String()
	return m
}

// serverJob returns a scrape job for the API server, as clusters have one. It keeps the metrics of
// admission of some ten thousand. The token is that of culvert-metrics: the path /metrics of the API
// server needs the same right.
func serverJob(t *testing.T, dir string) map[string]any {
	t.Helper()
	return map[string]any{
		"job_name": "apiserver", "scheme": "https", "authorization": map[string]any{"credentials_file": writeSecret(t, dir, "culvert-metrics", "token")},
		"tls_config":             map[string]any{"ca_file": filepath.Join(filepath.Dir(k8s.Kubeconfig), "pki", "ca.crt")},
		"static_configs":         []any{map[string]any{"targets": []string{"127.0.0.1:6443"}}},
		"metric_relabel_configs": []any{map[string]any{"source_labels": []string{"__name__"}, "regex": "apiserver_admission_.*", "action": "keep"}},
	}
}

// documentedJob returns the scrape job of a page. Files of a pod are those that it writes: a token for
// metrics, and the CA of the controller.
func documentedJob(t *testing.T, dir, page string) *scrapeJob {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, page))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```yaml\n- job_name:")
	block, _, _ = strings.Cut(block, "```")
	var jobs []struct {
		Name      string `json:"job_name"`
		Discovery []struct {
			Role       string
			Namespaces struct{ Names []string }
		} `json:"kubernetes_sd_configs"`
	}
	var configs []map[string]any
	if err := errors.Join(yaml.Unmarshal([]byte("- job_name:"+block), &jobs), yaml.Unmarshal([]byte("- job_name:"+block), &configs)); err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	if len(jobs) != 1 || len(jobs[0].Discovery) != 1 || jobs[0].Discovery[0].Role != "pod" {
		t.Fatalf("%s: %+v", page, jobs)
	}
	job := &scrapeJob{jobs[0].Discovery[0].Namespaces.Names, filepath.Join(dir, jobs[0].Name+".json"), configs[0]}
	delete(job.config, "kubernetes_sd_configs")
	job.config["file_sd_configs"] = []any{map[string]any{"files": []string{job.file}}}
	if authorization, has := job.config["authorization"].(map[string]any); has {
		authorization["credentials_file"] = writeSecret(t, dir, "culvert-metrics", "token")
		job.config["tls_config"].(map[string]any)["ca_file"] = writeSecret(t, dir, "culvert-controller-certificates", "ca.crt")
	}
	return job
}

// writeTargets writes the targets of the jobs as the role pod of kubernetes_sd_configs finds them: one for
// each port of each container, with the labels that the jobs use.
func (m *monitor) writeTargets() error {
	for _, job := range m.jobs {
		all := []map[string]any{}
		for _, namespace := range job.namespaces {
			var pods corev1.PodList
			if err := k8s.Get(context.Background(), &pods, "-n", namespace, "pods"); err != nil {
				return err
			}
			for _, p := range pods.Items {
				for _, c := range p.Spec.Containers {
					for _, port := range c.Ports {
						all = append(all, map[string]any{"targets": []string{net.JoinHostPort(p.Status.PodIP, fmt.Sprint(port.ContainerPort))}, "labels": map[string]string{
							"__meta_kubernetes_pod_label_app_kubernetes_io_name": p.Labels["app.kubernetes.io/name"], "__meta_kubernetes_pod_container_port_name": port.Name,
							"__meta_kubernetes_pod_node_name": p.Spec.NodeName, "__meta_kubernetes_pod_name": p.Name,
						}})
					}
				}
			}
		}
		text, err := json.Marshal(all)
		if err == nil {
			err = os.WriteFile(job.file+".new", text, 0o600)
		}
		if err := errors.Join(err, os.Rename(job.file+".new", job.file)); err != nil {
			return err
		}
	}
	return nil
}

// writeSecret writes a value of a Secret of Culvert's namespace into a file.
func writeSecret(t *testing.T, dir, name, key string) string {
	t.Helper()
	var secret struct{ Data map[string][]byte }
	eventually(t, "Secret "+name, func() error {
		err := k8s.Get(t.Context(), &secret, "-n", cluster.Namespace, "secret", name)
		if err == nil && len(secret.Data[key]) == 0 {
			err = fmt.Errorf("it has no %s", key)
		}
		return err
	})
	if err := os.WriteFile(filepath.Join(dir, key), secret.Data[key], 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, key)
}

// targetsAreUp returns an error unless each target of the jobs is up, and there are so many.
func (m *monitor) targetsAreUp(want map[string]int) error {
	if err := m.writeTargets(); err != nil {
		return err
	}
	var data struct {
		ActiveTargets []struct {
			Labels            map[string]string
			Health, LastError string
		}
	}
	if err := m.GetData("/api/v1/targets?state=active", &data); err != nil {
		return err
	}
	up := map[string]int{}
	for _, one := range data.ActiveTargets {
		if one.Health != "up" {
			return fmt.Errorf("target %v is %s: %s", one.Labels, one.Health, one.LastError)
		}
		up[one.Labels["job"]]++
	}
	for job, count := range want {
		if up[job] != count {
			return fmt.Errorf("targets that are up: %v, want %v", up, want)
		}
	}
	return nil
}

// withoutData are the panels of the dashboard whose queries may have no answer here, with the reason.
var withoutData = map[string]string{
	"Services over VF networks": "culvertd shows Services once the cluster has one over a VF network, and this test makes none",
	"Services without room":     "the same",
}

// readPanels returns the queries of the dashboard by panel, with values for its variables.
func readPanels(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(top + "/dist/grafana/culvert.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, p := range dashboard.Panels {
		for _, q := range p.Targets {
			all[p.Title] = append(all[p.Title], strings.NewReplacer("$instance", ".*", "$__rate_interval", "5m").Replace(q.Expr))
		}
	}
	return all
}

// findEmpty returns the queries of panels that have no answer, but for those of withoutData.
func (m *monitor) findEmpty(panels map[string][]string) (complaints []string) {
	for title, queries := range panels {
		for _, q := range queries {
			all, err := m.RunQuery(q)
			if err != nil || len(all) == 0 && withoutData[title] == "" {
				complaints = append(complaints, fmt.Sprintf("panel %q: %d samples, %v: %s", title, len(all), err, q))
			}
		}
	}
	return complaints
}

// Prometheus finds culvertd and the controller by the scrape jobs of the documents, beside a chart with
// monitoring, and all are up. Each query of the dashboard has an answer, but for a few. No alert fires.
func TestPrometheus(t *testing.T) {
	need(t, besideMultus)
	offered(t, intel, "7")
	began := time.Now()
	objects, err := os.ReadFile("testdata/prometheus.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m := startPrometheus(t)
	apply(t, string(objects))
	apply(t, pod("seen", "worker1", "scraped")+pod("gone", "worker1", "scraped"))
	running(t, 2)
	kubectl(t, "delete", "pod", "gone", "--wait=false")
	eventually(t, "all targets are up", func() error { return m.targetsAreUp(map[string]int{"culvertd": 1, "culvert-controller": 1}) })
	eventually(t, "Prometheus has the traffic of the pod", func() error {
		all, err := m.RunQuery(`culvert_vf_transmit_packets_total{job="culvertd", instance="worker1", namespace="default", owner="seen", kind="pod"} > 0`)
		if err == nil && len(all) != 1 {
			err = fmt.Errorf("it has %d samples", len(all))
		}
		return err
	})
	all := readPanels(t)
	var missing []string
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		if missing = m.findEmpty(all); len(missing) == 0 || time.Now().After(end) {
			break
		}
	}
	for _, one := range missing {
		t.Error(one)
	}
	t.Logf("%.0f s for two pods and %d panels", time.Since(began).Seconds(), len(all))
	eventually(t, "no alert fires in a healthy cluster", func() error {
		names, err := m.ListFiring()
		if err == nil && len(names) > 0 {
			err = fmt.Errorf("these fire: %q", names)
		}
		return err
	})
}
